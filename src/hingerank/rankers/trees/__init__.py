"""Boosted trees by LightGBM and XGBoost, as rankers of this library."""
