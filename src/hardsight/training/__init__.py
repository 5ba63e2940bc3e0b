"""Training with every sample's story: the loop, the dynamics tracker, and callbacks for other trainers."""
