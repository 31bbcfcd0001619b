"""What the benchmark of the local protocol starts beside itself."""
