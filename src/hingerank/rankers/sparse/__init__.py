"""Sparse rankers: linear models that use few features, and paths of them.

`fenchel` FenchelRank (l1 ball) · `penalised` SparseRankSVM (l1 norm) · `tgrank` TGRank and `rsrank` RSRank (truncated
gradient) · `feature_selection` FeatureSelectionRanker (filter, then RankSVM).
"""
