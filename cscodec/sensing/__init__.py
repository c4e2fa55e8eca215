"""The paper's mathematics: arrays in, arrays out."""
