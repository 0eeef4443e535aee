"""Public names without an entry of their own, each with its reason; patterns as of fnmatch."""

FIELDS = "a field of what a call gave back: it is in memory"
FACTS = "says what a header says; no element is touched"
LAZY = "gives a view or a lazy expression; what computes it has an entry"

EXCEPTIONS = {
    "__version__": "a text",
    "errors.*": "a class by another name",
    "linalg.matmul*": "a function by another name",
    **{
        f"linalg.{name}": "a function by another name" for name in ("matrix_transpose", "tensordot", "vecdot")
    },
    "ConvergenceError.partial": "what a routine with an entry had reached",
    "linalg.*.plan": "a plan of what has an entry: it counts and touches nothing",
    **{
        f"linalg.{kind}.*": FIELDS
        for kind in ("EigshResult", "LstsqResult", "LuResult", "QrFactor", "QrResult", "SvdsResult")
    },
    **{
        f"estimators.*.{name}": "parameters, and what scikit-learn asks: nothing is touched"
        for name in (
            *("get_params", "set_params", "__sklearn_*", "memory", "scratch", "fit_intercept"),
            *("set_output", "get_feature_names_out"),
        )
    },
    "sparse.*": "a name of another face",
    **{
        f"{kind}.*": FIELDS
        for kind in (
            *(
                "CheckReport",
                "EdgeTopics",
                "EmbeddingResult",
                "LsaResult",
                "Packed",
                "Plan",
                "RepairReport",
                "SingleCell",
                "Stats",
                "StencilComparison",
                "StencilResult",
                "StencilScheme",
                "WaveResult",
            ),
            *("linalg.LuFactor", "linalg.Slogdet"),
        )
    },
    "KnnResult.__iter__": FIELDS,
    **{f"{kind}.*": FIELDS for kind in ("LabelMetrics", "Predicted")},
    **{f"LabelModel.{name}": FACTS for name in ("nbytes", "weights")},
    **{
        f"TopicsResult.{name}": FIELDS
        for name in (
            *("catchwords", "edges", "likelihood", "sampled", "shares", "singular_values", "thresholds"),
        )
    },
    **{
        f"KMeansResult.{name}": FIELDS
        for name in ("centers", "converged", "counts", "inertia", "iterations", "metric")
    },
    **{
        f"estimators.KMeans.fit_{name}": "fit, and then what has an entry"
        for name in ("predict", "transform")
    },
    "estimators.TopicModel.fit_transform": "fit, and then what has an entry",
    "estimators.KMeans.get_feature_names_out": "names that follow from the number of clusters",
    **{
        f"PcaResult.{name}": FIELDS
        for name in (
            *("components", "explained_variance", "explained_variance_ratio", "mean", "residual"),
            "singular_values",
        )
    },
    **{
        f"*.{name}": FACTS
        for name in ("chunks", "dtype", "mode", "nbytes", "ndim", "nnz", "path", "shape", "size")
    },
    **{f"*.{name}": FACTS for name in ("__array_namespace__", "device", "to_device")},
    "__array_*": FACTS,
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type"), FACTS),
    **dict.fromkeys(("e", "inf", "nan", "newaxis", "pi"), "a number, or a dtype"),
    **dict.fromkeys(("astype", "asarray", "from_dlpack"), LAZY),
    "random.default_rng": "makes a key of a seed",
    "SparseArray.stored_*": FACTS,
    "SparseArray.__len__": FACTS,
    "Expression.__len__": FACTS,
    "Reduced.__len__": FACTS,
    **{
        f"*.{name}": LAZY
        for name in ("T", "conj", "conjugate", "imag", "mT", "real", "lazy", "tiles", "transpose")
    },
    "*.dot": "the product by another name",
    "SparseArray.operand": "what a job needs of the matrix: handles",
    "SparseArray.product_operand": "the same of products, which take a stored triangle",
    "SparseArray.__bool__": "refuses, as NumPy does",
    "SparseArray.__array__": "refuses: to_scipy is what loads a sparse matrix",
    "SparseArray.__array_function__": "refuses, or gives a reduction that has an entry",
    "Reduced.pass_key": "what it can share a read with, from handles",
    "*.__format__": "writes the number that __float__ computes",
    "*.__round__": "rounds the number that __float__ computes, or gives a lazy expression",
    "Reduced.combine": "puts together what the parts of a reduction gave, in memory",
    "*.__enter__": "a context manager; what runs inside has an entry",
    "*.__exit__": "a context manager; what runs inside has an entry",
    "Array.columns": "names that metadata hold",
    "PcaResult.columns": "names that metadata hold",
    "Array.attrs": "metadata, whose room is asked for where they are long; tests/arrays/test_attributes.py",
    "Array.dims": "names that metadata hold",
    **{
        f"*.{name}": "names alone; a room is asked for before they are read"
        for name in ("obs_names", "var_names")
    },
    "Array.__dlpack*": "lends the memory of an array in memory",
    **{f"Epochs.{name}": FACTS for name in ("epoch", "fields", "slots", "values")},
    "Graph.__len__": "a count",
    "Region*": "says where; tasks that read it have an entry",
    "Runtime*": "makes a limit; every entry runs inside one",
    "Device*": "names a memory; tests/devices runs routines in a runtime that has some",
    "devices": "facts of this machine",
    "fetch": "brings a box into a device's memory; tests/devices/test_fetch.py",
    "planned": "a shape alone, for plans: it is refused where elements are read",
    "calibrate": "measures the disk for seconds, in buffers of its own beside every limit",
    "chunk_shape": "arithmetic",
    "features": "facts of this machine",
    "stats": "what the last call did",
    "timeline": "a context manager; what runs inside has an entry",
    "flagstone timeline": "reads and draws a file of events",
    "datasets.Cells*": "makes counts for demonstrations block by block, in the caller's memory",
    "flagstone resume": "an entry has fl.resume, which is all it calls",
    "flagstone simulate": "plans; nothing is read",
    "flagstone calibrate": "measures the disk for seconds",
    "flagstone demo*": "`make demo` runs it under its limit; it takes minutes",
    **{
        f"nuclear.{name}": "counts, or makes values in memory: no data is touched"
        for name in (
            "Counts*",
            "Interaction*",
            "Space",
            "Space.basis",
            "Space.block_source",
            "Space.c*",
            "Space.identity",
            "Space.n*",
            "planned_basis",
        )
    },
    "subspace.Blocks*": "holds a function; what calls it has an entry",
    "subspace.ProjectedMatrix.eigvalsh": "to_dense, or eigsh, which have entries",
    "subspace.project.plan": "a plan of what has an entry",
    "nuclear.basis_of_j.plan": "a plan of what has an entry",
    "import_labels.plan": "reads headers of files alone",
    "flagstone project": "calls what has entries, one after the other; tests/subspace runs it",
    "flagstone recipe": "a group of verbs; each has an entry",
}
