"""Data in: `load` and `Dataset`, readers of common formats, scaling, paddings, splits, wrong labels, target functions."""

from overparam.data.column_notes import ColumnNote
from overparam.data.copies import RowCopies, row_copies
from overparam.data.dataset import Dataset
from overparam.data.draws import Corruption, corrupt_labels, flip_labels, generator, split
from overparam.data.duplicates import contradictions, duplicate_groups
from overparam.data.labels import choose_task, class_order, decode, encode
from overparam.data.loading import as_dataset, load
from overparam.data.named import Listing, available, cache_folder, data_folders
from overparam.data.readers.arrays import read_npy, read_npz
from overparam.data.readers.image_folders import read_image_folder
from overparam.data.readers.images import read_cifar_folder, read_idx, read_idx_folder
from overparam.data.readers.table_sources import read_delimited, read_frame, read_parquet
from overparam.data.scaling import (
    append_constant,
    centre,
    divide_by_root_d,
    drop_constant_columns,
    pad_beyond_two_layers,
    pad_convergence,
    preprocess,
    standardise,
    unit_rows,
)
from overparam.data.targets.hierarchical import HierarchicalComplexity, HierarchicalTarget, ParityTarget
from overparam.data.targets.layered import LayerComplexity, ThreeLayerTarget, TwoLayerTarget
from overparam.data.targets.smooth import (
    GeneralSum,
    SmoothFunction,
    SmoothSum,
    SumComplexity,
    coordinatewise,
    general_sum,
    sum_of_products,
)
from overparam.data.targets.target import (
    AbstractTarget,
    Estimate,
    cube_inputs,
    gaussian_inputs,
    padded_inputs,
    sphere_inputs,
    whole_cube,
)

__all__ = [
    "AbstractTarget",
    "ColumnNote",
    "Corruption",
    "Dataset",
    "Estimate",
    "GeneralSum",
    "HierarchicalComplexity",
    "HierarchicalTarget",
    "LayerComplexity",
    "Listing",
    "ParityTarget",
    "RowCopies",
    "SmoothFunction",
    "SmoothSum",
    "SumComplexity",
    "ThreeLayerTarget",
    "TwoLayerTarget",
    "append_constant",
    "as_dataset",
    "available",
    "cache_folder",
    "centre",
    "choose_task",
    "class_order",
    "contradictions",
    "coordinatewise",
    "corrupt_labels",
    "cube_inputs",
    "data_folders",
    "decode",
    "divide_by_root_d",
    "drop_constant_columns",
    "duplicate_groups",
    "encode",
    "flip_labels",
    "gaussian_inputs",
    "general_sum",
    "generator",
    "load",
    "pad_beyond_two_layers",
    "pad_convergence",
    "padded_inputs",
    "preprocess",
    "read_cifar_folder",
    "read_delimited",
    "read_frame",
    "read_idx",
    "read_idx_folder",
    "read_image_folder",
    "read_npy",
    "read_npz",
    "read_parquet",
    "row_copies",
    "sphere_inputs",
    "split",
    "standardise",
    "sum_of_products",
    "unit_rows",
    "whole_cube",
]
