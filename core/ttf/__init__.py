"""Trains two-tower retrievers on vectors that lie on disk; a native crash cannot lose a run.

    import ttf

    run = ttf.train(pairs="pairs.npz", bank="bank.npz", tower="mlp", lr=3e-4, progress=True)
    run.metrics["recall@10"]
    with run.load() as model:
        found = model.search(queries, k=10)        # found.ids, found.scores

Functions, each as the command of the same name:
    encode            pairs and bank of texts (ttf data encode)
    train, resume     a run, in a process of its own; returns a Run
    plan              what a run would need: memory, disk, time
    load, evaluate    the towers of a run; its metrics
    calibrate         corrects a finished model for hubs
    mine              a table of hard-negative candidates
    export            a run for sentence-transformers, ONNX, FAISS, databases
    tune              looks for a better configuration, and trains it
    compare           is one configuration better than another? (ttf ab)
    doctor            is this machine, this environment and a configuration safe?
    guard             watches over any command; when it dies, says why
    report            the HTML page of a run, and a zip to send
    open_vectors      a container of vectors

Classes of their own:
    EmbeddingTable    trainable vectors, one per document or item, in bounded memory

Errors are a TtfError with a hint and an exit code; Stopped (Ctrl-C, SIGTERM) is a
KeyboardInterrupt. All keys of a configuration: `ttf config explain`, docs/configuration.md.
What plugins use: docs/plugins.

Everything is imported on first use, so that `import ttf` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # the same names once more, for type checkers and editors
    from ttf.api import (
        Run as Run,
        evaluate as evaluate,
        load as load,
        mine as mine,
        open_vectors as open_vectors,
        plan as plan,
        resume as resume,
        train as train,
    )
    from ttf.contracts import (
        ArrayWriter as ArrayWriter,
        Availability as Availability,
        BatchPlan as BatchPlan,
        DeviceFactory as DeviceFactory,
        DevicePolicy as DevicePolicy,
        DType as DType,
        EvalRecord as EvalRecord,
        Miner as Miner,
        MinerContext as MinerContext,
        MinerCost as MinerCost,
        MinerFactory as MinerFactory,
        MinerTraits as MinerTraits,
        Precision as Precision,
        Settled as Settled,
        StepRecord as StepRecord,
        StorageFactory as StorageFactory,
        Store as Store,
        StoreWriter as StoreWriter,
        Tower as Tower,
        TowerCost as TowerCost,
        TowerFactory as TowerFactory,
        TowerShape as TowerShape,
        VectorSource as VectorSource,
    )
    from ttf.data.arrow_messages import (
        ArrowBatch as ArrowBatch,
        arrow_batches as arrow_batches,
    )
    from ttf.data.embedding.statistics import (
        TableStats as TableStats,
    )
    from ttf.data.embedding.table import (
        EmbeddingTable as EmbeddingTable,
    )
    from ttf.data.embedding.tower_rows import (
        TableRows as TableRows,
        TableTower as TableTower,
    )
    from ttf.data.order import (
        derived_seed as derived_seed,
        sampled_rows as sampled_rows,
    )
    from ttf.data.parquet_pages import (
        ParquetPages as ParquetPages,
    )
    from ttf.data.shards.fetched import (
        Fetching as Fetching,
        RemoteFault as RemoteFault,
        Shard as Shard,
    )
    from ttf.data.shards.node_cache import (
        NodeCache as NodeCache,
    )
    from ttf.data.vectors import (
        checked_ids as checked_ids,
        checked_out as checked_out,
        checked_span as checked_span,
        numpy_dtype as numpy_dtype,
        to_float32 as to_float32,
    )
    from ttf.errors import (
        ArrayMissing as ArrayMissing,
        ArtifactDamaged as ArtifactDamaged,
        BadData as BadData,
        ConfigError as ConfigError,
        DataChanged as DataChanged,
        DataCompressed as DataCompressed,
        DataMissing as DataMissing,
        ExitCode as ExitCode,
        GateNotMet as GateNotMet,
        MinerFailed as MinerFailed,
        PluginUnavailable as PluginUnavailable,
        Stopped as Stopped,
        StorageError as StorageError,
        TtfError as TtfError,
        storage_error as storage_error,
        suggestion as suggestion,
    )
    from ttf.hookspecs import (
        CheckContext as CheckContext,
        CutsTexts as CutsTexts,
        Encoder as Encoder,
        EncoderContext as EncoderContext,
        EncoderFactory as EncoderFactory,
        ExportAnswers as ExportAnswers,
        Exporter as Exporter,
        ExporterFactory as ExporterFactory,
        ExportFacts as ExportFacts,
        ExportProbe as ExportProbe,
        ExportSource as ExportSource,
        ModelFolder as ModelFolder,
        Role as Role,
        Searched as Searched,
        TowerFacts as TowerFacts,
        Verdict as Verdict,
        hookimpl as hookimpl,
    )
    from ttf.host.deprecation import (
        PluginDeprecationWarning as PluginDeprecationWarning,
    )
    from ttf.host.options import (
        NoOptions as NoOptions,
        option as option,
    )
    from ttf.host.version import __version__ as __version__
    from ttf.jobs import (
        Executor as Executor,
        ExecutorContext as ExecutorContext,
        ExecutorFactory as ExecutorFactory,
        Job as Job,
        JobEnd as JobEnd,
    )
    from ttf.machine.measured import (
        TunedRow as TunedRow,
        tuned_row as tuned_row,
    )
    from ttf.machine.processor import (
        Processor as Processor,
        processor as processor,
        usable_threads as usable_threads,
    )
    from ttf.machine.thread_variables import (
        thread_environment as thread_environment,
    )
    from ttf.mining.scan.bank_scan import (
        BankScan as BankScan,
    )
    from ttf.mining.scan.float32_rows import (
        exact_search as exact_search,
        float32_blocks as float32_blocks,
        gather_float32 as gather_float32,
        require_bank as require_bank,
        require_memory as require_memory,
    )
    from ttf.mining.scan.scan_counters import (
        ScanTally as ScanTally,
    )
    from ttf.process.job import (
        StartedJob as StartedJob,
        run_job as run_job,
    )
    from ttf.rundir.confined import (
        open_inside as open_inside,
        open_named as open_named,
        refuse_foreign as refuse_foreign,
    )
    from ttf.rundir.durable import (
        OpenFile as OpenFile,
        fsync_dir as fsync_dir,
        fsync_file as fsync_file,
    )
    from ttf.rundir.incident_files import (
        list_incidents as list_incidents,
    )
    from ttf.rundir.metrics_log import (
        MetricsLog as MetricsLog,
    )
    from ttf.rundir.outputs import (
        Temporary as Temporary,
        temporary_file as temporary_file,
        temporary_folder as temporary_folder,
    )
    from ttf.rundir.removing import (
        remove_if_possible as remove_if_possible,
    )
    from ttf.tools.ab.comparison import (
        Compared as Compared,
        compare as compare,
    )
    from ttf.tools.calibrate import (
        CalibratedRun as CalibratedRun,
        calibrate as calibrate,
    )
    from ttf.tools.doctor.diagnosis import (
        Diagnosis as Diagnosis,
        doctor as doctor,
    )
    from ttf.tools.encode.from_python import (
        Encoded as Encoded,
        encode as encode,
    )
    from ttf.tools.export.make import (
        Exported as Exported,
        export as export,
    )
    from ttf.tools.guard.from_python import (
        Guarded as Guarded,
        guard as guard,
    )
    from ttf.tools.mine.offline import (
        Mined as Mined,
    )
    from ttf.tools.report.make import (
        Reported as Reported,
        report as report,
    )
    from ttf.tools.tune.from_python import (
        Tuned as Tuned,
        tune as tune,
    )
    from ttf.training.found import (
        Found as Found,
    )
    from ttf.training.inference import (
        Model as Model,
    )
    from ttf.training.plan import (
        Plan as Plan,
    )

_NAMES: Final = {
    "ttf.api": "Run evaluate load mine open_vectors plan resume train",
    "ttf.contracts": "ArrayWriter Availability BatchPlan DType DeviceFactory DevicePolicy EvalRecord Miner MinerContext MinerCost MinerFactory MinerTraits Precision Settled StepRecord StorageFactory Store StoreWriter Tower TowerCost TowerFactory TowerShape VectorSource",
    "ttf.data.arrow_messages": "ArrowBatch arrow_batches",
    "ttf.data.embedding.statistics": "TableStats",
    "ttf.data.embedding.table": "EmbeddingTable",
    "ttf.data.embedding.tower_rows": "TableRows TableTower",
    "ttf.data.order": "derived_seed sampled_rows",
    "ttf.data.parquet_pages": "ParquetPages",
    "ttf.data.shards.fetched": "Fetching RemoteFault Shard",
    "ttf.data.shards.node_cache": "NodeCache",
    "ttf.data.vectors": "checked_ids checked_out checked_span numpy_dtype to_float32",
    "ttf.errors": "ArrayMissing ArtifactDamaged BadData ConfigError DataChanged DataCompressed DataMissing ExitCode GateNotMet MinerFailed PluginUnavailable Stopped StorageError TtfError storage_error suggestion",
    "ttf.hookspecs": "CheckContext CutsTexts Encoder EncoderContext EncoderFactory ExportAnswers ExportFacts ExportProbe ExportSource Exporter ExporterFactory ModelFolder Role Searched TowerFacts Verdict hookimpl",
    "ttf.host.deprecation": "PluginDeprecationWarning",
    "ttf.host.options": "NoOptions option",
    "ttf.host.version": "__version__",
    "ttf.jobs": "Executor ExecutorContext ExecutorFactory Job JobEnd",
    "ttf.machine.processor": "Processor processor usable_threads",
    "ttf.machine.thread_variables": "thread_environment",
    "ttf.machine.measured": "TunedRow tuned_row",
    "ttf.mining.scan.float32_rows": "exact_search float32_blocks gather_float32 require_bank require_memory",
    "ttf.mining.scan.bank_scan": "BankScan",
    "ttf.mining.scan.scan_counters": "ScanTally",
    "ttf.process.job": "StartedJob run_job",
    "ttf.rundir.confined": "open_inside open_named refuse_foreign",
    "ttf.rundir.durable": "OpenFile fsync_dir fsync_file",
    "ttf.rundir.incident_files": "list_incidents",
    "ttf.rundir.metrics_log": "MetricsLog",
    "ttf.rundir.outputs": "Temporary temporary_file temporary_folder",
    "ttf.rundir.removing": "remove_if_possible",
    "ttf.tools.ab.comparison": "Compared compare",
    "ttf.tools.calibrate": "CalibratedRun calibrate",
    "ttf.tools.doctor.diagnosis": "Diagnosis doctor",
    "ttf.tools.encode.from_python": "Encoded encode",
    "ttf.tools.export.make": "Exported export",
    "ttf.tools.guard.from_python": "Guarded guard",
    "ttf.tools.mine.offline": "Mined",
    "ttf.tools.report.make": "Reported report",
    "ttf.tools.tune.from_python": "Tuned tune",
    "ttf.training.found": "Found",
    "ttf.training.inference": "Model",
    "ttf.training.plan": "Plan",
}
_HOMES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOMES]  # noqa: PLE0604 - names are strings here as anywhere


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttf' has no attribute {name!r}")
    if _HOMES[name] == "ttf.api":
        from ttf.host.distribution import require_full

        require_full(f"ttf.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
