"""The methods that DST2R is compared with, on the same statistics and with the same surface."""

from dst2r.baselines.cp_ridge import CPRidge
from dst2r.baselines.envelope import TensorEnvelope
from dst2r.baselines.holrr import HOLRR, KernelHOLRR
from dst2r.baselines.sparse_ols import SparseOLS
from dst2r.baselines.store import STORE
from dst2r.baselines.surf import SURF

__all__ = ["HOLRR", "STORE", "SURF", "CPRidge", "KernelHOLRR", "SparseOLS", "TensorEnvelope"]
