"""The mining bench: our exact search, FAISS and hnswlib, on clustered documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.machine.measured import gemm_flops
from ttf.tools.bench.arms import BenchArm, OwnArm, Turns, Visit, bench
from ttf.tools.bench.sizes import Size

Vectors = NDArray[np.float32]
_CENTRES: Final = 256
_LINKS: Final = 16
_EF_BUILD: Final = 80
_BUDGET_BYTES: Final = 1 << 30


@bench
def mine_exact(visit: Visit) -> Generator[Turns]:
    from ttf.contracts import MinerContext
    from ttf.host import plugins
    from ttf.host.plugins import create_store, open_store
    from ttf.machine import devices

    size, folder, ceilings = visit.size, visit.folder, visit.ceilings
    policy = devices.choose("cpu")
    devices.prepare(policy)
    policy.start()
    bank_ND, queries_QD = _clustered(size)
    factory: Any = plugins.usable("miner", "exact")
    context = MinerContext(
        threads=policy.threads, seed=0, deterministic=True, budget_bytes=_BUDGET_BYTES
    )
    miner = factory.create(factory.options_type(), context)
    writer = create_store(str(folder / "bank.npz"))
    writer.array("vectors", bank_ND.shape, "float32").append(bank_ND)
    writer.commit()
    store = open_store(str(folder / "bank.npz"))
    (folder / "work").mkdir()
    visit.tell({"at": "mine-exact"})
    began = time.perf_counter()
    miner.build(store.source("vectors"), folder / "work")
    built_s = time.perf_counter() - began
    exact, _ = miner.search(queries_QD, size.scan_k)
    best = gemm_flops(ceilings, "bf16") or gemm_flops(ceilings, "fp32")
    own = OwnArm(
        name="mine-exact",
        turn=lambda: miner.search(queries_QD, size.scan_k),
        work=size.scan_queries,
        unit="queries/s",
        shape=f"{size.scan_queries:,} x {size.scan_rows:,} x {size.scan_dim}, k={size.scan_k}",
        ideal_s=None if best is None else 2.0 * size.scan_rows * size.scan_dim / best,
        ceiling="the fastest matrix product",
        note=f"the preparation of ttf took {built_s:.1f} s",
    )
    yield [own], list(_peers(visit, bank_ND, queries_QD, exact, policy.threads))
    miner.close()
    store.close()


def _peers(
    visit: Visit, bank_ND: Vectors, queries_QD: Vectors, exact: NDArray[np.int64], threads: int
) -> Iterator[BenchArm]:
    size = visit.size
    makers = {"faiss-flat": _faiss_flat, "faiss-hnsw": _faiss_hnsw, "hnswlib": _hnswlib}
    for name, make in makers.items():
        if name not in visit.peers:
            continue
        visit.tell({"at": name})
        began = time.perf_counter()
        search = make(bank_ND, size, threads)
        built_s = time.perf_counter() - began
        recall = _recall(search(queries_QD), exact)
        yield BenchArm(
            name=name,
            turn=lambda search=search: search(queries_QD),  # type: ignore[misc]
            work=size.scan_queries,
            note=f"recall {recall:.3f}; the {built_s:.1f} s to build the index are not included",
        )


Search = Callable[[Vectors], NDArray[np.int64]]


def _faiss_flat(bank_ND: Vectors, size: Size, threads: int) -> Search:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(bank_ND.shape[1])
    index.add(bank_ND)
    return lambda q: np.asarray(index.search(q, size.scan_k)[1])


def _faiss_hnsw(bank_ND: Vectors, size: Size, threads: int) -> Search:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(bank_ND.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _EF_BUILD
    index.hnsw.efSearch = max(size.scan_k, _EF_BUILD)
    index.add(bank_ND)
    return lambda q: np.asarray(index.search(q, size.scan_k)[1])


def _hnswlib(bank_ND: Vectors, size: Size, threads: int) -> Search:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=bank_ND.shape[1])
    index.init_index(len(bank_ND), M=_LINKS, ef_construction=_EF_BUILD, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(bank_ND)
    index.set_ef(max(size.scan_k, _EF_BUILD))
    return lambda q: np.asarray(index.knn_query(q, k=size.scan_k)[0]).astype(np.int64)


def _recall(found: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    few = min(len(exact), 256)
    pairs = zip(found[:few], exact[:few], strict=True)
    return float(np.mean([len(np.intersect1d(a, b)) / exact.shape[1] for a, b in pairs]))


def _clustered(size: Size) -> tuple[Vectors, Vectors]:
    """Unit vectors around common centres, so that an index works as in real banks."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_CENTRES, size.scan_dim), dtype=np.float32)

    def drawn(count: int) -> Vectors:
        own = rng.standard_normal((count, size.scan_dim), dtype=np.float32)
        own += centres[rng.integers(0, _CENTRES, count)]
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        return own

    return drawn(size.scan_rows), drawn(size.scan_queries)
