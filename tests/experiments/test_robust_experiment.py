"""The comparison of robust methods: its yardstick, its peers in NumPy and its verdict."""

from __future__ import annotations

import numpy as np
import pytest
from experiments import robust_numpy
from experiments.robust_catalogue import CLEAN, OURS, RIVAL
from experiments.robust_data import OUTLIERS, contaminated, haystack, sine
from experiments.robust_peers import main
from experiments.robust_verdict import verdict
from scipy.linalg import subspace_angles

SIZE = {"N": 300, "d": 30, "s": 4}


@pytest.mark.parametrize("seed", range(3))
def test_sine_is_that_of_the_largest_angle(seed):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((20, 3)))[0]
    B = A + 1e-3 * rng.standard_normal((20, 3))
    assert sine(A.T, B.T) == pytest.approx(np.sin(subspace_angles(A, B).max()), rel=1e-6)


@pytest.mark.parametrize("kind", OUTLIERS)
@pytest.mark.parametrize("fraction", [0.1, 0.45])
def test_haystacks_are_what_they_say(kind, fraction):
    found = haystack(kind, fraction, 0, noise=0.0, offset=0.0, **SIZE)
    assert found.outlier.mean() == pytest.approx(fraction, abs=1 / 300)
    inliers = found.X[~found.outlier]
    assert np.allclose(inliers @ found.basis.T @ found.basis, inliers)
    assert np.linalg.norm(inliers, axis=1).mean() == pytest.approx(1, abs=0.15)
    apart = found.X[found.outlier] - found.X[found.outlier] @ found.basis.T @ found.basis
    assert np.linalg.norm(apart, axis=1).max() > 0.1


@pytest.mark.parametrize("name", ["fms", "tyler", "spherical", "pcp"])
def test_peers_find_the_subspace_among_isotropic_outliers(name):
    found = haystack("isotropic", 0.2, 0, noise=0.0, offset=0.0, **SIZE)
    components, center = getattr(robust_numpy, name)(found.X, 4)
    assert sine(found.basis, components) < 0.15
    assert np.linalg.norm(center) < 0.5


def test_contaminated_rows():
    pictures = np.random.default_rng(0).random((200, 16))
    found = contaminated(pictures, 0)
    assert len(found.X) == 160
    assert found.outlier.sum() == 24
    assert (found.X[~found.outlier] == found.clean[~found.outlier]).all()
    assert (np.abs(found.X[found.outlier]).max(axis=1) > 1).all()


def record(name, seed, error, seconds, fraction=0.3):
    return {"method": name, "seed": seed, "error": error, "seconds": seconds, "fraction": fraction}


def test_the_verdict_names_what_is_worse_and_how_much_faster():
    cells = {
        ("line", "30%"): {
            OURS: [record(OURS, i, 0.02, 0.01) for i in range(3)],
            RIVAL: [record(RIVAL, i, 0.01, 0.2) for i in range(3)],
        },
        ("cluster", "30%"): {
            OURS: [record(OURS, i, 0.01, 0.01) for i in range(3)],
            RIVAL: [record(RIVAL, i, None, 0.05) for i in range(3)],
        },
    }
    text = "\n".join(verdict(cells))
    assert "worse" in text
    assert "line, 30%: 0.02 against 0.01" in text
    assert "cluster, 30%:" not in text
    assert f"{RIVAL} / {OURS}: 5 (cluster, 30%)" in text


def test_the_command_writes_a_table(tmp_path, monkeypatch):
    monkeypatch.delenv("DUALPCA_DATA", raising=False)
    asked = ["--quick", "--only", "digits", "--seeds", "1", "--out", str(tmp_path)]
    main([*asked, "--method", OURS, "PCA", "FMS"])
    text = (tmp_path / "robust_peers.md").read_text()
    assert "## Digits" in text
    for name in (OURS, "PCA", "FMS", CLEAN):
        assert name in text
    assert (tmp_path / "robust_peers.json").exists()
