"""The two functions of eth_account that the guide uses, from Python's standard library alone.

No registry of Python packages is reachable where the tests run. Names, arguments and results are those of eth_account
0.13: Account.from_key(key).address, and Account.sign_typed_data(key, domain, types, message).signature.
"""
import secrets

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
ROTATIONS = [[0, 36, 3, 41, 18], [1, 44, 10, 45, 2], [62, 6, 43, 15, 61], [28, 55, 25, 21, 56], [27, 20, 39, 8, 14]]
DOMAIN = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}


def _rounds():
    state = 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            if state & 1:
                constant |= 1 << ((1 << j) - 1)
            state = (state << 1) ^ (0x171 if state & 0x80 else 0)
        yield constant


def keccak(data):
    def turned(value, by):
        return ((value << by) | (value >> (64 - by))) & (2**64 - 1) if by else value

    padded = bytearray(data) + b"\x01" + b"\x00" * (135 - len(data) % 136)
    padded[-1] |= 0x80
    lanes = [[0] * 5 for _ in range(5)]
    for start in range(0, len(padded), 136):
        for i in range(17):
            lanes[i % 5][i // 5] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        for constant in _rounds():
            columns = [lanes[x][0] ^ lanes[x][1] ^ lanes[x][2] ^ lanes[x][3] ^ lanes[x][4] for x in range(5)]
            for x in range(5):
                for y in range(5):
                    lanes[x][y] ^= columns[x - 1] ^ turned(columns[(x + 1) % 5], 1)
            moved = [[0] * 5 for _ in range(5)]
            for x in range(5):
                for y in range(5):
                    moved[y][(2 * x + 3 * y) % 5] = turned(lanes[x][y], ROTATIONS[x][y])
            lanes = [[moved[x][y] ^ (~moved[(x + 1) % 5][y] & moved[(x + 2) % 5][y]) for y in range(5)] for x in range(5)]
            lanes[0][0] ^= constant
    return b"".join(lanes[i % 5][i // 5].to_bytes(8, "little") for i in range(4))


def _sum(one, other):
    if one is None or other is None:
        return one or other
    if one[0] == other[0] and (one[1] + other[1]) % P == 0:
        return None
    if one == other:
        slope = 3 * one[0] * one[0] * pow(2 * one[1], -1, P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, P)
    x = (slope * slope - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


def _times(scalar, point=G):
    total = None
    while scalar:
        if scalar & 1:
            total = _sum(total, point)
        point, scalar = _sum(point, point), scalar >> 1
    return total


def _word(kind, value):
    if kind == "string":
        return keccak(value.encode())
    if kind == "address":
        return bytes.fromhex(value[2:]).rjust(32, b"\x00")
    if kind == "bytes32":
        return bytes.fromhex(value[2:])
    if kind == "uint256":
        return value.to_bytes(32, "big")
    raise TypeError(f"the stand-in does not encode {kind}")


def _struct(name, fields, values):
    kind = f"{name}({','.join(f'{kind} {field}' for field, kind in fields.items())})"
    return keccak(keccak(kind.encode()) + b"".join(_word(kind, values[field]) for field, kind in fields.items()))


class _Wallet:
    def __init__(self, secret):
        x, y = _times(secret)
        plain = keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[-20:].hex()
        marks = keccak(plain.encode()).hex()
        self.address = "0x" + "".join(c.upper() if int(mark, 16) > 7 else c for c, mark in zip(plain, marks))


class _Signed:
    def __init__(self, signature):
        self.signature = signature


class Account:
    @staticmethod
    def from_key(private_key):
        return _Wallet(int(private_key, 16))

    @staticmethod
    def sign_typed_data(private_key, domain_data, message_types, message_data):
        (name, fields), *others = message_types.items()
        if others:
            raise TypeError("the stand-in signs one flat struct")
        domain = _struct("EIP712Domain", {field: DOMAIN[field] for field in DOMAIN if field in domain_data}, domain_data)
        struct = _struct(name, {field["name"]: field["type"] for field in fields}, message_data)
        digest = int.from_bytes(keccak(b"\x19\x01" + domain + struct), "big")
        secret = int(private_key, 16)
        nonce = secrets.randbelow(N - 1) + 1
        x, y = _times(nonce)
        r = x % N
        s = (digest + r * secret) * pow(nonce, -1, N) % N
        odd = y & 1
        if s > N // 2:
            s, odd = N - s, odd ^ 1
        return _Signed(r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + odd]))
