"""Kernel maps and scikit-learn's plain transformers are kept in model files as arrays, and nothing else is."""

import json

import numpy as np
import pytest
import safetensors.numpy
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import hingerank as hr
from hingerank.export.attributes import MAPS, TRANSFORMERS, decode_transformer
from hingerank.export.model_file import _digest, read_header
from hingerank.features.fourier import FourierMap
from hingerank.features.nystroem import NystroemMap

KINDS = [
    StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer(), Binarizer(threshold=0.3),
    QuantileTransformer(n_quantiles=20), QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    PowerTransformer(), PowerTransformer(standardize=False), SplineTransformer(),
    SplineTransformer(extrapolation="periodic"), PolynomialFeatures(2, interaction_only=True), PCA(3), PCA(whiten=True),
    TruncatedSVD(2), RBFSampler(n_components=7, random_state=0), PolynomialCountSketch(n_components=8, random_state=0),
    VarianceThreshold(), make_pipeline(StandardScaler(), PolynomialFeatures(2), PCA(4)),
    FeatureUnion([("a", StandardScaler()), ("b", SplineTransformer())]), NystroemMap(9), NystroemMap(9, rank=4),
    FourierMap(8),
]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return hr.make_letor(n_queries=12, rows_per_query=(5, 12), n_features=5, seed=0, dtype="float64")


def test_all_listed_classes_are_tried():
    assert {type(kind).__name__ for kind in KINDS} == {*TRANSFORMERS, *(kind.__name__ for kind in MAPS)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_ranker_on_it_scores_the_same_after_loading(kind, data, tmp_path):
    for ranker in (hr.RankSVM(C=0.1, features=kind).fit(data), hr.RankRLS(C=0.1, features=kind).fit(data)):
        back = hr.load(ranker.save(tmp_path / "model"))
        np.testing.assert_allclose(back.predict(data), ranker.predict(data), rtol=1e-9, atol=1e-9)
        assert back.fit(data).predict(data).shape == (data.n_rows,)  # and can be fitted again


def test_what_holds_a_function_is_refused(data, tmp_path):
    for kind in (FunctionTransformer(np.log1p), make_pipeline(StandardScaler(), FunctionTransformer(np.abs))):
        with pytest.raises(hr.ModelFileError, match="FunctionTransformer, which a model file cannot hold"):
            hr.RankSVM(features=kind).fit(data).save(tmp_path / "model")
    with pytest.raises(hr.ModelFileError, match="a model file contains no code"):
        hr.RankSVM(features=NystroemMap(5, kernel=lambda A, B: A @ B.T)).fit(data).save(tmp_path / "model")

    class StandardScalerOfMine(StandardScaler):
        pass

    with pytest.raises(hr.ModelFileError, match="cannot hold"):
        hr.RankSVM(features=StandardScalerOfMine()).fit(data).save(tmp_path / "model")


def test_a_forged_file_can_name_no_other_class_and_no_method(data, tmp_path):
    path = hr.RankSVM(features=StandardScaler()).fit(data).save(tmp_path / "model.safetensors")
    header, arrays = read_header(path), safetensors.numpy.load_file(path)
    forgeries = [
        lambda h: h["params"]["features"].update({"class": "FunctionTransformer"}),
        lambda h: h["state"]["features_"]["state"]["transformer_"]["state"].update({"transform": 1}),
        lambda h: h["state"]["features_"]["state"]["transformer_"]["state"].update({"__class__": 1}),
        lambda h: h["state"]["features_"]["state"].update({"n_features": 3}),
        lambda h: h["state"]["features_"]["state"]["transformer_"]["params"].update({"hook": 1}),
    ]
    for forge in forgeries:
        changed = json.loads(json.dumps(header))
        forge(changed)
        text = json.dumps(changed)
        content = safetensors.numpy.save(arrays, {"hingerank": text, "sha256": _digest(text, arrays)})
        (tmp_path / "forged.safetensors").write_bytes(content)
        with pytest.raises(hr.ModelFileError):
            hr.load(tmp_path / "forged.safetensors")
    with pytest.raises(ValueError, match="no transformer 'Popen'"):
        decode_transformer("Popen", {}, {})
