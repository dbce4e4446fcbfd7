"""What runs while nobody asks: one module per job."""
