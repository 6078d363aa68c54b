"""How benchmarks/fuzz.py damages files, and the text that it starts from."""

import random
import re

TOKENS = [
    *b"nan NaN inf -inf NULL null NA 1e999 1e-999 -0 +1 . - + e 1e 1e+ 0x10 1_0 1,5 5. .5 00012".split(),
    *b"1e23 4.9e-324 1e309 -1e40 3.5e38 9007199254740993 0.1000000000000000055511151231257827".split(),
    *b"123456789012345678901234567890 179769313486231580793e289 18446744073709551616 0000000000000000000000000".split(),
    *b"4000000000:1 99999999999999999999:1 0:1 1:1 -1:2 2: :3 1:2:3 1:1:1 1: 8192:1 8193:1".split(),
    *b"qid: qid:1 qid:a qid:007 qid:-0 qid:-5 QID:1 cost:1 #docid=x #docid =1+1 @x true false 1999-01-01".split(),
    *(b"\r", b"\r\n", b"\n", b"\n\n", b"\0", b"#", b" # ", b"\t", b"  ", b"\x0b", b"\x1c", b"\x85"),
    *(b"\xff", b"\xc3\xa9", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", "٣".encode(), b"\xb2"),
    *(b"#docid = x inc = 1", b"#docid =", b"# docid = a b", b'"', b'""', b",", b";", b"::", b"'", b"<", b"&x;", b"]]>"),
]


def mutate(raw: bytes, chance: random.Random) -> bytes:
    """Text with a few things changed."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(9)
        if kind == 0 and data:
            data[at % len(data)] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.choice((1, 1, 2, 5, 30))]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            data[at:at] = b" " + chance.choice(TOKENS) + b" "
        elif kind == 4:  # a token replaced
            words = [match.span() for match in re.finditer(rb"[^ \t\n#:,]+", data)]
            if words:
                first, end = chance.choice(words)
                data[first:end] = chance.choice(TOKENS)
        elif kind == 5:  # lines shuffled or repeated
            lines = bytes(data).split(b"\n")
            lines.insert(chance.randrange(len(lines)), chance.choice(lines))
            data = bytearray(b"\n".join(lines))
        elif kind == 6:
            data = data[:at]
        elif kind == 7:
            data[at:at] = bytes(data[at : at + chance.randrange(60)])
        else:
            data[at:at] = repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 300)).encode()
    return bytes(data)


def damage(raw: bytes, chance: random.Random) -> bytes:
    """Bytes with bits flipped, pieces lost, doubled or overwritten, or the end cut off."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at, kind = chance.randrange(len(data) + 1), chance.randrange(8)
        if kind < 4 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 4:
            data[at : at + 4] = chance.choice((b"\0" * 4, b"\xff" * 4, chance.randbytes(4)))
        elif kind == 5:
            del data[at : at + chance.choice((1, 4, 64))]
        elif kind == 6:
            data[at:at] = bytes(data[at : at + chance.randrange(1, 40)])
        else:
            data = data[:at]
    return bytes(data)


LETOR = [
    b"2 qid:10 1:0.031310 2:0.666667 3:0.500000 #docid = GX000-24-12369390 inc = 0.6 prob = 0.4\n"
    b"0 qid:10 1:0 2:0 3:0.25 #docid = GX1\n1 qid:32 1:1.000000 2:-5.5e-3 3:7 #docid = GX2 inc = 1 prob = 1\n",
    b"1 qid:WT04-132 1:12.5 5:1e3 # alpha\r\n0 qid:WT04-132 3:0.1 2:7 # beta gamma\r\n"
    b"\r\n# a line\r\n-1 qid:b 1:5.\r\n",
    b"0.5 0:1 3:2.25 7:.5\n1.5 1:0.1\n\n3 0:1e-7 2:123456789.123456789",
    b"1 1:0.5 2:0.25 # 17\n0 1:0.125 # 17\n2 2:3 # 18\n0 1:1 2:1 # 18\n",
    b"1 qid:1 1:NULL 2:0.5\n0 qid:1 1:3 2:NULL # caf\xc3\xa9\n2 qid:2 1:1 2:nan\n",
    b"3 qid:5\t1:0.1\t2:0.30000000000000004\t3:9007199254740993 #x\n" * 4,
    b"1 qid:7 " + b" ".join(b"%d:%d.%06d" % (i, i % 3, i * 7919 % 10**6) for i in range(1, 40)) + b"\n",
    b"0 qid:1 5000:1 5:2\n1 qid:1 7:1\n0 qid:2 31:0.5 30:0.25 29:0.125 28:1 2:2 1:3\n" + b"1 qid:2 9:1\n" * 6,
    b"# only a comment\n1 qid:3 2:1\n",
]

TABLE = b'qid,docid,label,f1,f2\n1,"a, b",2,0.5,-1e-3\n1,"=c",0,7,0\n2,d,1,3,0.25\n'
RATINGS = b"user,item,rating,time\n7,x1,4.5,978300760\n8,x2,3,978302109\n7,x2,1,978301968\n"

RUN = b"1 Q0 d1 1 3.5 x\n1 Q0 d2 2 3.5 x\n2 Q0 d1 1 -1e-3 x\n"
QRELS = b"1 1 d1 1\n1 2 d1 0\n1 1 d2 2\n2 a d3 -1\n"
