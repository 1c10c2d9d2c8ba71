// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// A contract wallet that means harm: it burns gas where it does not recognize a signature, and that depends on its mood.
contract MoodyWallet {
    /// 0: recognizes everything where gas is free, as in most simulations, and nothing else. 1: everything. 2: nothing.
    uint256 public mood;

    function setMood(uint256 mood_) external {
        mood = mood_;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        bool isKind = mood == 1 || (mood == 0 && tx.gasprice == 0);
        if (isKind) return this.isValidSignature.selector;
        uint256 start = gasleft();
        while (start - gasleft() < 300_000) {}
        return 0xffffffff;
    }
}
