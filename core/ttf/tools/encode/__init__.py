"""`ttf data encode`: texts to pairs, bank and context. `read/` reads them, `collect` numbers and
deduplicates them on the disk, `work` encodes them in a process of its own, `assemble` writes."""
