"""A small folder of BEIR: two documents, two queries, a judgement of each."""

from __future__ import annotations

import json
from pathlib import Path


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}]
    queries = [{"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"}]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(f"{head}q1\td1\t2\nq2\td2\t1\n")
    return folder
