"""Data in: `load` and `Dataset`, readers of common formats, scaling, paddings, splits, wrong labels, target functions."""

from overparam.data.arrays import read_npy, read_npz
from overparam.data.cifar import read_cifar_folder
from overparam.data.corruption import Corruption, corrupt_labels, flip_labels
from overparam.data.dataset import Dataset
from overparam.data.delimited import read_delimited
from overparam.data.duplicates import contradictions, duplicate_groups
from overparam.data.encoding import choose_task, class_order, decode, encode
from overparam.data.frames import read_frame, read_parquet
from overparam.data.general_sums import GeneralSum, general_sum
from overparam.data.hierarchical_targets import HierarchicalComplexity, HierarchicalTarget
from overparam.data.idx import read_idx, read_idx_folder
from overparam.data.input_laws import cube_inputs, gaussian_inputs, padded_inputs, sphere_inputs, whole_cube
from overparam.data.keys import generator
from overparam.data.layer_complexity import LayerComplexity
from overparam.data.loading import as_dataset, load
from overparam.data.lookup import Listing, available, cache_folder, data_folders
from overparam.data.paddings import pad_beyond_two_layers, pad_convergence
from overparam.data.parity_targets import ParityTarget
from overparam.data.preprocessing import (
    append_constant,
    centre,
    divide_by_root_d,
    drop_constant_columns,
    preprocess,
    standardise,
    unit_rows,
)
from overparam.data.smooth_functions import SmoothFunction
from overparam.data.smooth_sums import SmoothSum, SumComplexity, coordinatewise, sum_of_products
from overparam.data.splits import split
from overparam.data.target import AbstractTarget, Estimate
from overparam.data.three_layer_targets import ThreeLayerTarget
from overparam.data.two_layer_targets import TwoLayerTarget

__all__ = [
    "AbstractTarget",
    "Corruption",
    "Dataset",
    "Estimate",
    "GeneralSum",
    "HierarchicalComplexity",
    "HierarchicalTarget",
    "LayerComplexity",
    "Listing",
    "ParityTarget",
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
    "read_npy",
    "read_npz",
    "read_parquet",
    "sphere_inputs",
    "split",
    "standardise",
    "sum_of_products",
    "unit_rows",
    "whole_cube",
]
