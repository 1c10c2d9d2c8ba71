// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// A contract wallet for tests: its owner's key answers for it (ERC-1271). The signature carries one leading byte, so that it is not
/// 65 bytes long and a token that would try ecrecover on it cannot pass by accident.
contract ContractWallet {
    address public immutable owner;

    constructor(address owner_) {
        owner = owner_;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 66) return 0xffffffff;
        bytes32 r = bytes32(signature[1:33]);
        bytes32 s = bytes32(signature[33:65]);
        address signer = ecrecover(digest, uint8(signature[65]), r, s);
        return signer == owner && signer != address(0) ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}
