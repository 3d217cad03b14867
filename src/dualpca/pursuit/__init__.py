"""Principal component pursuit as a method."""
