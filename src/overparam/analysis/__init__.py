"""The questions users ask: what will a wide network do with this data set?"""

from overparam.analysis.reading import read
from overparam.analysis.whole import Analysis, analyze, plan_analysis

__all__ = ["Analysis", "analyze", "plan_analysis", "read"]
