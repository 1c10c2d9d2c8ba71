// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Signer} from "./signer.sol";

interface Token {
    function balanceOf(address account) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
}

interface DepositCollector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata collectorData) external;
}

/// The scheme `batch-settlement` on the local chain: one escrow for each payer, seller, token and terms. The payer signs
/// cumulative vouchers off the chain; the seller claims what was used of them, and sweeps it. The code is placed at its
/// address: there is no constructor.
contract BatchSettlement {
    struct ChannelConfig {
        address payer;
        address payerAuthorizer;
        address receiver;
        address receiverAuthorizer;
        address token;
        uint40 withdrawDelay;
        bytes32 salt;
    }

    struct Voucher {
        ChannelConfig channel;
        uint128 maxClaimableAmount;
    }

    /// `totalClaimed` is cumulative, as the voucher is.
    struct VoucherClaim {
        Voucher voucher;
        bytes signature;
        uint128 totalClaimed;
    }

    /// `balance` is gross: claims do not lower it, so `balance - totalClaimed` is free.
    struct Channel {
        uint128 balance;
        uint128 totalClaimed;
    }

    struct Withdrawal {
        uint128 amount;
        uint40 initiatedAt;
    }

    struct Receiver {
        uint128 totalClaimed;
        uint128 totalSettled;
    }

    error InvalidChannel();
    error InvalidAmount();
    error InvalidCollector();
    error WithdrawDelayOutOfRange();
    error DepositMismatch();
    error NotAuthorized();
    error InvalidSignature();
    error ClaimExceedsCeiling();
    error ClaimExceedsBalance();
    error EmptyBatch();
    error InvalidRefundNonce();
    error WithdrawalPending();
    error NoWithdrawalPending();
    error WithdrawDelayNotOver();
    error ReentrantCall();

    event ChannelCreated(bytes32 indexed channelId, ChannelConfig config);
    event ChannelClosed(bytes32 indexed channelId, ChannelConfig config);
    event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
    event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
    event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
    event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
    event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
    event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

    uint40 public constant MIN_WITHDRAW_DELAY = 15 minutes;
    uint40 public constant MAX_WITHDRAW_DELAY = 30 days;

    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant CHANNEL_TYPEHASH = keccak256(
        "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
    );
    bytes32 private constant VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
    bytes32 private constant REFUND_TYPEHASH = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
    bytes32 private constant CLAIM_ENTRY_TYPEHASH =
        keccak256("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
    bytes32 private constant CLAIM_BATCH_TYPEHASH = keccak256(
        "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)"
    );

    mapping(bytes32 channelId => Channel) public channels;
    mapping(bytes32 channelId => Withdrawal) public pendingWithdrawals;
    mapping(bytes32 channelId => uint256) public refundNonce;
    mapping(address receiver => mapping(address token => Receiver)) public receivers;

    bool private transient isMoving;

    /// Tokens and wallets are foreign code.
    modifier alone() {
        if (isMoving) revert ReentrantCall();
        isMoving = true;
        _;
        isMoving = false;
    }

    // Escrow

    /// Anyone may bring a deposit. The collector takes the tokens from the payer, with the payer's signature.
    function deposit(ChannelConfig calldata config, uint128 amount, address collector, bytes calldata collectorData)
        external
        alone
    {
        if (
            config.payer == address(0) || config.receiver == address(0) || config.receiverAuthorizer == address(0)
                || config.token == address(0)
        ) revert InvalidChannel();
        if (config.withdrawDelay < MIN_WITHDRAW_DELAY || config.withdrawDelay > MAX_WITHDRAW_DELAY) {
            revert WithdrawDelayOutOfRange();
        }
        if (amount == 0) revert InvalidAmount();
        if (collector.code.length == 0) revert InvalidCollector();
        bytes32 id = getChannelId(config);
        uint256 before = Token(config.token).balanceOf(address(this));
        DepositCollector(collector).collect(config.payer, config.token, amount, id, collectorData);
        if (Token(config.token).balanceOf(address(this)) != before + amount) revert DepositMismatch();
        Channel storage channel = channels[id];
        if (channel.balance == 0) emit ChannelCreated(id, config);
        channel.balance += amount;
        emit Deposited(id, msg.sender, amount, channel.balance);
    }

    function initiateWithdraw(ChannelConfig calldata config, uint128 amount) external alone {
        bytes32 id = authorizedByPayer(config);
        Channel storage channel = channels[id];
        if (pendingWithdrawals[id].initiatedAt != 0) revert WithdrawalPending();
        if (amount == 0 || amount > channel.balance - channel.totalClaimed) revert InvalidAmount();
        pendingWithdrawals[id] = Withdrawal(amount, uint40(block.timestamp));
        emit WithdrawInitiated(id, amount, uint40(block.timestamp) + config.withdrawDelay);
    }

    /// What was claimed meanwhile is no longer there to be withdrawn.
    function finalizeWithdraw(ChannelConfig calldata config) external alone {
        bytes32 id = authorizedByPayer(config);
        Withdrawal memory pending = pendingWithdrawals[id];
        if (pending.initiatedAt == 0) revert NoWithdrawalPending();
        if (block.timestamp < pending.initiatedAt + config.withdrawDelay) revert WithdrawDelayNotOver();
        delete pendingWithdrawals[id];
        uint128 amount = paidBack(id, config, pending.amount);
        emit WithdrawFinalized(id, msg.sender, amount);
    }

    // Income

    function claim(VoucherClaim[] calldata claims) external alone {
        for (uint256 i = 0; i < claims.length; i++) {
            ChannelConfig calldata config = claims[i].voucher.channel;
            if (msg.sender != config.receiver && msg.sender != config.receiverAuthorizer) revert NotAuthorized();
        }
        claimAll(claims);
    }

    /// Anyone may bring a batch that the authorizer of all its channels has signed.
    function claimWithSignature(VoucherClaim[] calldata claims, bytes calldata authorizerSignature) external alone {
        if (claims.length == 0) revert EmptyBatch();
        address authorizer = claims[0].voucher.channel.receiverAuthorizer;
        for (uint256 i = 1; i < claims.length; i++) {
            if (claims[i].voucher.channel.receiverAuthorizer != authorizer) revert NotAuthorized();
        }
        if (!Signer.hasSigned(authorizer, getClaimBatchDigest(claims), authorizerSignature)) revert InvalidSignature();
        claimAll(claims);
    }

    /// Sends everything that was claimed for a receiver. Does nothing where nothing is due.
    function settle(address receiver, address token) external alone {
        Receiver storage due = receivers[receiver][token];
        uint128 amount = due.totalClaimed - due.totalSettled;
        if (amount == 0) return;
        due.totalSettled = due.totalClaimed;
        Token(token).transfer(receiver, amount);
        emit Settled(receiver, token, msg.sender, amount);
    }

    // Refunds by the seller

    function refund(ChannelConfig calldata config, uint128 amount) external alone {
        if (msg.sender != config.receiver && msg.sender != config.receiverAuthorizer) revert NotAuthorized();
        refunded(getChannelId(config), config, amount);
    }

    function refundWithSignature(ChannelConfig calldata config, uint128 amount, uint256 nonce, bytes calldata signature)
        external
        alone
    {
        bytes32 id = getChannelId(config);
        if (nonce != refundNonce[id]) revert InvalidRefundNonce();
        if (!Signer.hasSigned(config.receiverAuthorizer, getRefundDigest(id, nonce, amount), signature)) {
            revert InvalidSignature();
        }
        refunded(id, config, amount);
    }

    /// All calls or none.
    function multicall(bytes[] calldata calls) external returns (bytes[] memory results) {
        results = new bytes[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool isDone, bytes memory result) = address(this).delegatecall(calls[i]);
            if (!isDone) {
                assembly ("memory-safe") {
                    revert(add(result, 32), mload(result))
                }
            }
            results[i] = result;
        }
    }

    // What is signed

    function getChannelId(ChannelConfig calldata config) public view returns (bytes32) {
        return digestOf(keccak256(abi.encode(CHANNEL_TYPEHASH, config)));
    }

    function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) public view returns (bytes32) {
        return digestOf(keccak256(abi.encode(VOUCHER_TYPEHASH, channelId, maxClaimableAmount)));
    }

    function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount) public view returns (bytes32) {
        return digestOf(keccak256(abi.encode(REFUND_TYPEHASH, channelId, nonce, amount)));
    }

    function getClaimBatchDigest(VoucherClaim[] calldata claims) public view returns (bytes32) {
        bytes32[] memory entries = new bytes32[](claims.length);
        for (uint256 i = 0; i < claims.length; i++) {
            entries[i] = keccak256(
                abi.encode(
                    CLAIM_ENTRY_TYPEHASH,
                    getChannelId(claims[i].voucher.channel),
                    claims[i].voucher.maxClaimableAmount,
                    claims[i].totalClaimed
                )
            );
        }
        return digestOf(keccak256(abi.encode(CLAIM_BATCH_TYPEHASH, keccak256(abi.encodePacked(entries)))));
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("x402 Batch Settlement"), keccak256("1"), block.chainid, address(this))
        );
    }

    // Inside

    function digestOf(bytes32 content) private view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
    }

    function authorizedByPayer(ChannelConfig calldata config) private view returns (bytes32) {
        if (msg.sender != config.payer && msg.sender != config.payerAuthorizer) revert NotAuthorized();
        return getChannelId(config);
    }

    /// A row that claims nothing new is passed over, without a look at its signature.
    function claimAll(VoucherClaim[] calldata claims) private {
        for (uint256 i = 0; i < claims.length; i++) {
            VoucherClaim calldata row = claims[i];
            ChannelConfig calldata config = row.voucher.channel;
            bytes32 id = getChannelId(config);
            Channel storage channel = channels[id];
            if (row.totalClaimed <= channel.totalClaimed) continue;
            if (row.totalClaimed > row.voucher.maxClaimableAmount) revert ClaimExceedsCeiling();
            if (row.totalClaimed > channel.balance) revert ClaimExceedsBalance();
            if (!hasVouched(config, getVoucherDigest(id, row.voucher.maxClaimableAmount), row.signature)) {
                revert InvalidSignature();
            }
            uint128 amount = row.totalClaimed - channel.totalClaimed;
            channel.totalClaimed = row.totalClaimed;
            receivers[config.receiver][config.token].totalClaimed += amount;
            emit Claimed(id, msg.sender, amount, row.totalClaimed);
        }
    }

    /// The payer's authorizer signs with a key. Without one the payer does, as an account of either kind does.
    function hasVouched(ChannelConfig calldata config, bytes32 digest, bytes calldata signature) private view returns (bool) {
        if (config.payerAuthorizer == address(0)) return Signer.hasSigned(config.payer, digest, signature);
        return Signer.recovered(digest, signature) == config.payerAuthorizer;
    }

    /// The nonce moves with every refund, so that a signed one is used once. A pending withdrawal keeps what is left.
    function refunded(bytes32 id, ChannelConfig calldata config, uint128 amount) private {
        if (amount == 0) revert InvalidAmount();
        refundNonce[id]++;
        uint128 sent = paidBack(id, config, amount);
        Withdrawal storage pending = pendingWithdrawals[id];
        uint128 free = channels[id].balance - channels[id].totalClaimed;
        if (pending.initiatedAt != 0 && free == 0) delete pendingWithdrawals[id];
        else if (pending.amount > free) pending.amount = free;
        emit Refunded(id, msg.sender, sent);
    }

    /// Sends the payer at most `amount` of what is free.
    function paidBack(bytes32 id, ChannelConfig calldata config, uint128 amount) private returns (uint128 sent) {
        Channel storage channel = channels[id];
        uint128 free = channel.balance - channel.totalClaimed;
        sent = amount < free ? amount : free;
        if (sent == 0) return 0;
        channel.balance -= sent;
        if (channel.balance == 0) emit ChannelClosed(id, config);
        Token(config.token).transfer(config.payer, sent);
    }
}
