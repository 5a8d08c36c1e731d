"""Evidence about a dead process, its class, remedies and incident files. No heavy imports."""
