"""The loops that exports to Python, C and JavaScript consist of, for each language: texts by kind of model, by scaling
of columns, and for filling missing values.

Each text defines `score`. If columns are scaled, the model's own function is renamed `of_scaled`, and a function that
scales a row and passes it on follows; likewise `of_filled`, if missing values are filled. Missing values stay missing
when scaled. The quantiles of all columns are in one array, column after column. JavaScript is C in other words.
"""

import re

_ROWS_PYTHON = '''
def score(x):
    """The score of one row."""
    d = len(FEATURES)
    inner = ({} for i in range(len(WEIGHT)))
    return sum(w * {} for w, v in zip(WEIGHT, inner))
'''
_SCALED_PYTHON = '''

def score(x):
    """The score of one row, whose columns are scaled first."""
    z = list(x)
    for k, j in enumerate(SCALED):
        v = x[j]
        if v is not None and v == v:
            z[j] = {}
    return of_scaled(z)
'''
PYTHON = {
    "linear": '''
def score(x):
    """The score of one row."""
    return OFFSET + sum(w * x[j] for j, w in zip(FEATURE, WEIGHT))
''',
    "trees": '''
def score(x):
    """The score of one row; None and NaN are missing values."""
    total = START
    for node in ROOT:
        while FEATURE[node] >= 0:
            v = x[FEATURE[node]]
            if v is None or v != v or (v == 0 and MISSING[node] & 2):
                left = MISSING[node] & 1
            else:
                left = v <= NUMBER[node]
            node = CHILD[node] if left else CHILD[node] + 1
        total += NUMBER[node]
    return total
''',
    "curves": '''
def score(x):
    """The score of one row: the sum of the features' curves, linear between knots."""
    total = 0.0
    for k, j in enumerate(FEATURE):
        v, first, last = x[j], START[k], START[k + 1] - 1
        i = first
        while i < last and KNOT[i + 1] <= v:
            i += 1
        if v < KNOT[first] or i == last:
            total += HEIGHT[i] + SLOPE[k] * (v - KNOT[i])
        else:
            total += HEIGHT[i] + (HEIGHT[i + 1] - HEIGHT[i]) * ((v - KNOT[i]) / (KNOT[i + 1] - KNOT[i]))
    return total
''',
    "waves": _ROWS_PYTHON.format("PHASE[i] + sum(ROW[i * d + j] * x[j] for j in range(d))", "cos(v)"),
    "rbf": _ROWS_PYTHON.format(  # not ** 2, which refuses large numbers
        "sum((x[j] - ROW[i * d + j]) * (x[j] - ROW[i * d + j]) for j in range(d))", "exp(-GAMMA * v)"
    ),
    "polynomial": _ROWS_PYTHON.format("sum(x[j] * ROW[i * d + j] for j in range(d))", "(GAMMA * v + COEF0) ** DEGREE"),
    "columns": _SCALED_PYTHON.format("(v - CENTRE[k]) / WIDTH[k]"),
    "log": _SCALED_PYTHON.format("copysign(log1p(abs(v)), v) / WIDTH[k]"),
    "quantile": '''

def place(v, first):
    """The position of a value among the quantiles from `first` on, from 0 to 1; the middle of equal ones."""
    last, top = first + QUANTILES, QUANTILES - 1
    low, high = bisect_left(QUANTILE, v, first, last), bisect_right(QUANTILE, v, first, last)
    if low < high:
        return 0.5 * (low + high - 1 - 2 * first) / top
    if low == first or low == last:
        return float(low == last)
    below = QUANTILE[low - 1]
    return (low - 1 - first + (v - below) / (QUANTILE[low] - below)) / top
'''
    + _SCALED_PYTHON.format("place(v, QUANTILES * k)"),
    "filled": '''

def score(x):
    """The score of one row; None and NaN are missing values, which are filled first."""
    gone = [v is None or v != v for v in x]
    z = [f if g else v for v, f, g in zip(x, FILL, gone)]
    return of_filled(z + [float(gone[j]) for j in MARKED])
''',
    "sum": '''def score(x):
    """The score of one row."""
    return CALLS''',
}
# curves, and products of ramps from 0 to 1 over two features
PYTHON["surfaces"] = PYTHON["curves"].replace(
    "    return total\n",
    """    for k, w in enumerate(WEIGHT):
        for i in (2 * k, 2 * k + 1):
            w *= min(1.0, max(0.0, (x[PAIR[i]] - BEGIN[i]) / (END[i] - BEGIN[i])))
        total += w
    return total
""",
)
_ROWS_C = """
double score(const double *x)
{
    double total = 0;
    for (int i = 0; i < N; i++) {
        double v = %s;
        for (int j = 0; j < N_FEATURES; j++) v += %s;
        total += WEIGHT[i] * %s;
    }
    return total;
}
"""
_SCALED_C = """
/* the score of one row, whose columns are scaled first */
double score(const double *x)
{
    double z[WIDE];
    for (int j = 0; j < WIDE; j++) z[j] = x[j];
    for (int k = 0; k < COLUMNS; k++) {
        double v = x[SCALED[k]];
        if (!isnan(v)) z[SCALED[k]] = %s;
    }
    return of_scaled(z);
}
"""
C = {
    "linear": """
double score(const double *x)
{
    double total = OFFSET;
    for (int k = 0; k < N; k++) total += WEIGHT[k] * x[FEATURE[k]];
    return total;
}
""",
    "trees": """
/* missing values are NAN */
double score(const double *x)
{
    double total = START;
    for (int k = 0; k < N; k++) {
        int node = ROOT[k];
        while (FEATURE[node] >= 0) {
            double v = x[FEATURE[node]];
            int missing = isnan(v) || (v == 0 && (MISSING[node] & 2));
            int left = missing ? MISSING[node] & 1 : v <= NUMBER[node];
            node = left ? CHILD[node] : CHILD[node] + 1;
        }
        total += NUMBER[node];
    }
    return total;
}
""",
    "curves": """
/* the sum of the features' curves, linear between knots */
double score(const double *x)
{
    double total = 0;
    for (int k = 0; k < N; k++) {
        double v = x[FEATURE[k]];
        int first = START[k], last = START[k + 1] - 1, i = first;
        while (i < last && KNOT[i + 1] <= v) i++;
        if (v < KNOT[first] || i == last) total += HEIGHT[i] + SLOPE[k] * (v - KNOT[i]);
        else total += HEIGHT[i] + (HEIGHT[i + 1] - HEIGHT[i]) * ((v - KNOT[i]) / (KNOT[i + 1] - KNOT[i]));
    }
    return total;
}
""",
    "waves": _ROWS_C % ("PHASE[i]", "ROW[i * N_FEATURES + j] * x[j]", "cos(v)"),
    "rbf": _ROWS_C % ("0", "(x[j] - ROW[i * N_FEATURES + j]) * (x[j] - ROW[i * N_FEATURES + j])", "exp(-GAMMA * v)"),
    "polynomial": _ROWS_C % ("0", "x[j] * ROW[i * N_FEATURES + j]", "pow(GAMMA * v + COEF0, DEGREE)"),
    "columns": _SCALED_C % "(v - CENTRE[k]) / WIDTH[k]",
    "log": _SCALED_C % "copysign(log1p(fabs(v)), v) / WIDTH[k]",
    "quantile": """
/* the position of a value among the quantiles from `first` on, 0 to 1: linear between two, the middle of equal ones */
double place(double v, int first)
{
    int low = 0, top = QUANTILES - 1;
    while (low < QUANTILES && QUANTILE[first + low] < v) low++;
    int high = low;
    while (high < QUANTILES && QUANTILE[first + high] == v) high++;
    if (low < high) return 0.5 * (low + high - 1) / top;
    if (low == 0 || low == QUANTILES) return low == 0 ? 0 : 1;
    double below = QUANTILE[first + low - 1];
    return (low - 1 + (v - below) / (QUANTILE[first + low] - below)) / top;
}
"""
    + _SCALED_C % "place(v, QUANTILES * k)",
    "filled": """
/* missing values, which are NAN, are filled first */
double score(const double *x)
{
    double z[WIDE];
    for (int j = 0; j < N_FEATURES; j++) z[j] = isnan(x[j]) ? FILL[j] : x[j];
    for (int k = 0; k < MARKS; k++) z[N_FEATURES + k] = isnan(x[MARKED[k]]) ? 1 : 0;
    return of_filled(z);
}
""",
    "sum": "double score(const double *x)\n{\n    return CALLS;\n}",
}
C["surfaces"] = C["curves"].replace(
    "    return total;\n",
    """    for (int k = 0; k < PRODUCTS; k++) {
        double w = WEIGHT[k];
        for (int i = 2 * k; i < 2 * k + 2; i++)
            w *= fmin(1, fmax(0, (x[PAIR[i]] - BEGIN[i]) / (END[i] - BEGIN[i])));
        total += w;
    }
    return total;
""",
)
_JAVASCRIPT = {  # words of C -> the same in JavaScript
    r"double score\(const double \*x\)": "function score(x)",
    r"double place\(double v, int first\)": "function place(v, first)",
    r"double z\[WIDE\]": "const z = []",
    r"\b(double|int) ": "let ",
    r"isnan\(([^()]*)\)": r"(\1 == null || isNaN(\1))",
    r"copysign\((.*), v\)": r"Math.sign(v) * \1",
    r"\bf?(cos|exp|pow|log1p|min|max|abs)\(": r"Math.\1(",
    r"\bNAN\b": "null, undefined or NaN",
}
JAVASCRIPT = dict(C)
for word, other in _JAVASCRIPT.items():
    JAVASCRIPT = {name: re.sub(word, other, text) for name, text in JAVASCRIPT.items()}
