"""Small published data sets that tests compare against: facts, typed in, and proved by their published eigenvalues."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Violent crime rates by state, 1973 (McNeil 1977, R's `USArrests`): murder, assault, urban population in %, rape.
_USARRESTS = """
Alabama 13.2 236 58 21.2; Alaska 10 263 48 44.5; Arizona 8.1 294 80 31; Arkansas 8.8 190 50 19.5;
California 9 276 91 40.6; Colorado 7.9 204 78 38.7; Connecticut 3.3 110 77 11.1; Delaware 5.9 238 72 15.8;
Florida 15.4 335 80 31.9; Georgia 17.4 211 60 25.8; Hawaii 5.3 46 83 20.2; Idaho 2.6 120 54 14.2;
Illinois 10.4 249 83 24; Indiana 7.2 113 65 21; Iowa 2.2 56 57 11.3; Kansas 6 115 66 18;
Kentucky 9.7 109 52 16.3; Louisiana 15.4 249 66 22.2; Maine 2.1 83 51 7.8; Maryland 11.3 300 67 27.8;
Massachusetts 4.4 149 85 16.3; Michigan 12.1 255 74 35.1; Minnesota 2.7 72 66 14.9; Mississippi 16.1 259 44 17.1;
Missouri 9 178 70 28.2; Montana 6 109 53 16.4; Nebraska 4.3 102 62 16.5; Nevada 12.2 252 81 46;
New_Hampshire 2.1 57 56 9.5; New_Jersey 7.4 159 89 18.8; New_Mexico 11.4 285 70 32.1; New_York 11.1 254 86 26.1;
North_Carolina 13 337 45 16.1; North_Dakota 0.8 45 44 7.3; Ohio 7.3 120 75 21.4; Oklahoma 6.6 151 68 20;
Oregon 4.9 159 67 29.3; Pennsylvania 6.3 106 72 14.9; Rhode_Island 3.4 174 87 8.3; South_Carolina 14.4 279 48 22.5;
South_Dakota 3.8 86 45 12.8; Tennessee 13.2 188 59 26.9; Texas 12.7 201 80 25.5; Utah 3.2 120 80 22.9;
Vermont 2.2 48 32 11.2; Virginia 8.5 156 63 20.7; Washington 4 145 73 26.2; West_Virginia 5.7 81 39 9.3;
Wisconsin 2.6 53 66 10.8; Wyoming 6.8 161 60 15.6
"""

# Ruspini's 75 points (1970; R's cluster::ruspini), in the order of the rows there.
_RUSPINI = """
4 53; 5 63; 10 59; 9 77; 13 49; 13 69; 12 88; 15 75; 18 61; 19 65; 22 74; 27 72; 28 76; 24 58; 27 55; 28 60; 30 52;
31 60; 32 61; 36 72; 28 147; 32 149; 35 153; 33 154; 38 151; 41 150; 38 145; 38 143; 32 143; 34 141; 44 156; 44 149;
44 143; 46 142; 47 149; 49 152; 50 142; 53 144; 52 152; 55 155; 54 124; 60 136; 63 139; 86 132; 85 115; 85 96; 78 94;
74 96; 97 122; 98 116; 98 124; 99 119; 99 128; 101 115; 108 111; 110 111; 108 116; 111 126; 115 117; 117 115; 70 4;
77 12; 83 21; 61 15; 69 15; 78 16; 66 18; 58 13; 64 20; 69 21; 66 23; 61 25; 76 27; 72 31; 64 30
"""

# Decathlon results, Decastar and Olympics 2004 (R's FactoMineR `decathlon`): 100 m, long jump, shot put, high jump,
# 400 m, 110 m hurdles, discus, pole vault, javelin, 1500 m; Decastar in capitals.
_DECATHLON = """
SEBRLE 11.04 7.58 14.83 2.07 49.81 14.69 43.75 5.02 63.19 291.7; CLAY 10.76 7.4 14.26 1.86 49.37 14.05 50.72 4.92 60.15 301.5;
KARPOV 11.02 7.3 14.77 2.04 48.37 14.09 48.95 4.92 50.31 300.2; BERNARD 11.02 7.23 14.25 1.92 48.93 14.99 40.87 5.32 62.77 280.1;
YURKOV 11.34 7.09 15.19 2.1 50.42 15.31 46.26 4.72 63.44 276.4; WARNERS 11.11 7.6 14.31 1.98 48.68 14.23 41.1 4.92 51.77 278.1;
ZSIVOCZKY 11.13 7.3 13.48 2.01 48.62 14.17 45.67 4.42 55.37 268; McMULLEN 10.83 7.31 13.76 2.13 49.91 14.38 44.41 4.42 56.37 285.1;
MARTINEAU 11.64 6.81 14.57 1.95 50.14 14.93 47.6 4.92 52.33 262.1; HERNU 11.37 7.56 14.41 1.86 51.1 15.06 44.99 4.82 57.19 285.1;
BARRAS 11.33 6.97 14.09 1.95 49.48 14.48 42.1 4.72 55.4 282; NOOL 11.33 7.27 12.68 1.98 49.2 15.29 37.92 4.62 57.44 266.6;
BOURGUIGNON 11.36 6.8 13.46 1.86 51.16 15.67 40.49 5.02 54.68 291.7;
Sebrle 10.85 7.84 16.36 2.12 48.36 14.05 48.72 5 70.52 280.01; Clay 10.44 7.96 15.23 2.06 49.19 14.13 50.11 4.9 69.71 282;
Karpov 10.5 7.81 15.93 2.09 46.81 13.97 51.65 4.6 55.54 278.11; Macey 10.89 7.47 15.73 2.15 48.97 14.56 48.34 4.4 58.46 265.42;
Warners 10.62 7.74 14.48 1.97 47.97 14.01 43.73 4.9 55.39 278.05; Zsivoczky 10.91 7.14 15.31 2.12 49.4 14.95 45.62 4.7 63.45 269.54;
Hernu 10.97 7.19 14.65 2.03 48.73 14.25 44.72 4.8 57.76 264.35; Nool 10.8 7.53 14.26 1.88 48.81 14.8 42.05 5.4 61.33 276.33;
Bernard 10.69 7.48 14.8 2.12 49.13 14.17 44.75 4.4 55.27 276.31; Schwarzl 10.98 7.49 14.01 1.94 49.76 14.25 42.43 5.1 56.32 273.56;
Pogorelov 10.95 7.31 15.1 2.06 50.79 14.21 44.6 5 53.45 287.63; Schoenbeck 10.9 7.3 14.77 1.88 50.3 14.34 44.41 5 60.89 278.82;
Barras 11.14 6.99 14.91 1.94 49.41 14.37 44.83 4.6 64.55 267.09; Smith 10.85 6.81 15.24 1.91 49.27 14.01 49.02 4.2 61.52 272.74;
Averyanov 10.55 7.34 14.44 1.94 49.72 14.39 39.88 4.8 54.51 271.02; Ojaniemi 10.68 7.5 14.97 1.94 49.12 15.01 40.35 4.6 59.26 275.71;
Smirnov 10.89 7.07 13.88 1.94 49.11 14.77 42.47 4.7 60.88 263.31; Qi 11.06 7.34 13.55 1.97 49.65 14.78 45.13 4.5 60.79 272.63;
Drews 10.87 7.38 13.07 1.88 48.51 14.01 40.11 5 51.53 274.21; Parkhomenko 11.14 6.61 15.69 2.03 51.04 14.88 41.9 4.8 65.82 277.94;
Terek 10.92 6.94 15.15 1.94 49.56 15.12 45.62 5.3 50.62 290.36; Gomez 11.08 7.26 14.57 1.85 48.61 14.41 40.95 4.4 60.71 269.7;
Turi 11.08 6.91 13.62 2.03 51.67 14.26 39.83 4.8 59.34 290.01; Lorenzo 11.1 7.03 13.22 1.85 49.34 15.38 40.22 4.5 58.36 263.08;
Karlivans 11.33 7.26 13.3 1.97 50.54 14.98 43.34 4.5 52.92 278.67; Korkizoglou 10.86 7.07 14.81 1.94 51.16 14.96 46.07 4.7 53.05 317;
Uldal 11.23 6.99 13.53 1.85 50.95 15.09 43.01 4.5 60 281.7; Casarsa 11.36 6.68 14.92 1.94 53.2 15.39 48.66 4.4 58.62 296.12
"""  # noqa: E501


def _named(text: str) -> tuple[list[str], NDArray[np.float64]]:
    rows = [row.split() for row in text.replace("\n", " ").split(";")]
    return [row[0].replace("_", " ") for row in rows], np.array([row[1:] for row in rows], np.float64)


def usarrests() -> tuple[list[str], NDArray[np.float64]]:
    """States and their rates, 50 x 4."""
    return _named(_USARRESTS)


def decathlon() -> tuple[list[str], NDArray[np.float64]]:
    """Athletes (a name in capitals is the Decastar's) and results, 41 x 10."""
    return _named(_DECATHLON)


def ruspini() -> NDArray[np.float64]:
    """75 x 2; row r of R is index r - 1 here."""
    return np.array([pair.split() for pair in _RUSPINI.replace("\n", " ").split(";")], np.float64)


def decathlon_active() -> tuple[list[str], NDArray[np.float64]]:
    """factoextra's `decathlon2.active`: 23 of those rows, 23 x 10."""
    early = "SEBRLE CLAY BERNARD YURKOV ZSIVOCZKY McMULLEN MARTINEAU HERNU BARRAS NOOL BOURGUIGNON"
    late = "Sebrle Clay Karpov Macey Warners Zsivoczky Hernu Bernard Schwarzl Pogorelov Schoenbeck Barras"
    active = f"{early} {late}".split()
    names, values = decathlon()
    return active, values[[names.index(name) for name in active]]
