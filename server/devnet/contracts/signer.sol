// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface ContractWallet {
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4);
}

/// Whose signature it is, as the contracts of the payment schemes ask.
library Signer {
    /// Half of the order of secp256k1, rounded down: a larger s is the mirrored twin of a valid signature.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    /// An account with code answers for itself, and only so (ERC-1271); one without must have signed with its key.
    function hasSigned(address account, bytes32 digest, bytes memory signature) internal view returns (bool) {
        if (account.code.length == 0) return account != address(0) && recovered(digest, signature) == account;
        (bool answered, bytes memory answer) =
            account.staticcall(abi.encodeCall(ContractWallet.isValidSignature, (digest, signature)));
        return answered && answer.length >= 32 && bytes32(answer) == bytes32(ContractWallet.isValidSignature.selector);
    }

    /// The signer of 65 bytes (r, s, v) or 64 (EIP-2098); zero for anything else.
    function recovered(bytes32 digest, bytes memory signature) internal pure returns (address) {
        bytes32 r;
        bytes32 s;
        uint8 v;
        if (signature.length == 65) {
            assembly ("memory-safe") {
                r := mload(add(signature, 32))
                s := mload(add(signature, 64))
                v := byte(0, mload(add(signature, 96)))
            }
        } else if (signature.length == 64) {
            assembly ("memory-safe") {
                r := mload(add(signature, 32))
                s := mload(add(signature, 64))
            }
            v = uint8(uint256(s) >> 255) + 27;
            s = bytes32(uint256(s) & (type(uint256).max >> 1));
        }
        if (uint256(s) > HALF_ORDER || (v != 27 && v != 28)) return address(0);
        return ecrecover(digest, v, r, s);
    }
}
