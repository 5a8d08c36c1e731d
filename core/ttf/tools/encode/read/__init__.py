"""Rows of texts from CSV, TSV, JSONL, Parquet, Arrow folders and BEIR folders, one at a time."""
