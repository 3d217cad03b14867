"""Threads of the kernels stay and wait for work: many callers, children and repeated calls."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest

from dualpca import native

pytestmark = pytest.mark.skipif(native.kernels is None, reason="built without the C kernels")


def product(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((4000, 300)), rng.standard_normal((300, 16))
    return native.multiply(native.SWEEP, X, W, count)


def child(answers: multiprocessing.Queue) -> None:
    answers.put(product(3, 2))


def test_calls_with_many_and_few_threads_in_turn():
    for i in range(60):
        count = 1 + (7 * i) % 5
        assert np.array_equal(product(i % 3, count), product(i % 3, count))


def test_callers_at_the_same_time_get_their_own_answers():
    expected = [product(seed, 3) for seed in range(4)]
    wrong: list[int] = []

    def call(seed: int) -> None:
        for _ in range(30):
            if not np.array_equal(product(seed, 3), expected[seed]):
                wrong.append(seed)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    expected = product(3, 2)  # the threads of the parent are waiting now
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    process = fork.Process(target=child, args=(answers,))
    process.start()
    answer = answers.get()
    process.join()
    assert process.exitcode == 0
    assert np.array_equal(answer, expected)
