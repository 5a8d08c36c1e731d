"""`ttf train A.toml --else B.toml`: B is trained where A died beyond its remedies or missed a gate."""
