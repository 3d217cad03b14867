"""Principal component pursuit: alternating directions, and scores by l1 fits."""
