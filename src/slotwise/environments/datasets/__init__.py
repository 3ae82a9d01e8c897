"""Data sets: look-alikes drawn from written recipes, and loaders of the original files.

Reading files needs polars (`pip install 'slotwise[experiments]'`); the look-alikes do not.
"""

from slotwise.environments.datasets.dataset import Dataset, Outlook, look_ahead
from slotwise.environments.datasets.look_alikes import (
    ads_recipe,
    coupon_mild_recipe,
    coupon_recipe,
    edx_recipe,
    shop_recipe,
    tiny_rates_recipe,
)
from slotwise.environments.datasets.registry import (
    DATASETS,
    Loader,
    LookAlike,
    find_dataset,
    load_dataset,
)

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "LookAlike",
    "Outlook",
    "ads_recipe",
    "coupon_mild_recipe",
    "coupon_recipe",
    "edx_recipe",
    "find_dataset",
    "load_dataset",
    "look_ahead",
    "shop_recipe",
    "tiny_rates_recipe",
]
