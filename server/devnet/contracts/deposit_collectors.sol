// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Permit2} from "./permit2.sol";

interface AuthorizationToken {
    function transfer(address to, uint256 value) external returns (bool);
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external;
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}

// Where deposits go.
address constant SETTLEMENT = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;

error OnlySettlement();

/// Takes a deposit that the payer has signed as a transfer to this contract (EIP-3009). Its nonce names the channel.
contract ERC3009DepositCollector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata collectorData) external {
        if (msg.sender != SETTLEMENT) revert OnlySettlement();
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(collectorData, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        AuthorizationToken(token).receiveWithAuthorization(
            payer, address(this), amount, validAfter, validBefore, nonce, signature
        );
        AuthorizationToken(token).transfer(SETTLEMENT, amount);
    }
}

/// Takes a deposit that the payer has signed for Permit2, with the channel as its witness. It may bring the allowance
/// along (EIP-2612); one that fails is passed over, because the allowance may be there already.
contract Permit2DepositCollector {
    Permit2 private constant PERMIT2 = Permit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    bytes32 private constant WITNESS_TYPEHASH = keccak256("DepositWitness(bytes32 channelId)");
    string private constant WITNESS_TYPE_STRING =
        "DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)";

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata collectorData) external {
        if (msg.sender != SETTLEMENT) revert OnlySettlement();
        (uint256 nonce, uint256 deadline, bytes memory signature, bytes memory permit) =
            abi.decode(collectorData, (uint256, uint256, bytes, bytes));
        if (permit.length > 0) allow(payer, token, permit);
        PERMIT2.permitWitnessTransferFrom(
            Permit2.PermitTransferFrom(Permit2.TokenPermissions(token, amount), nonce, deadline),
            Permit2.SignatureTransferDetails(SETTLEMENT, amount),
            payer,
            keccak256(abi.encode(WITNESS_TYPEHASH, channelId)),
            WITNESS_TYPE_STRING,
            signature
        );
    }

    function allow(address payer, address token, bytes memory permit) private {
        (uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) =
            abi.decode(permit, (uint256, uint256, uint8, bytes32, bytes32));
        try AuthorizationToken(token).permit(payer, address(PERMIT2), value, deadline, v, r, s) {} catch {}
    }
}
