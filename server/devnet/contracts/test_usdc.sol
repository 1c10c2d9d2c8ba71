// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface ContractWallet {
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4);
}

/// Play money for the local chain: it answers to a payer, a relayer and a facilitator as USDC of Base Sepolia does (EIP-20, EIP-2612, EIP-3009,
/// ERC-1271), but anyone may mint it. The code is placed at an address, never deployed: no constructor runs, so no name, domain or
/// owner may live in storage, and slots 0 to 4 keep their order for as long as a kept chain is to be opened by newer code.
contract TestUsdc {
    string public constant name = "USDC";
    string public constant symbol = "USDC";
    string public constant version = "2";
    string public constant currency = "USD";
    uint8 public constant decimals = 6;

    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH =
        keccak256("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)");
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH =
        keccak256("ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)");
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 public constant PERMIT_TYPEHASH =
        keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");

    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    /// Half of the order of secp256k1, rounded down: a larger s is the mirrored twin of a valid signature.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => uint256) public nonces;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    // Plain token

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allow(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(value <= allowed, "TestUsdc: transfer exceeds the allowance");
        allowance[from][msg.sender] = allowed - value;
        move(from, to, value);
        return true;
    }

    function mint(address to, uint256 value) external {
        require(to != address(0), "TestUsdc: mint to the zero address");
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    // Signed by the payer, sent by anyone

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this)));
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s
    ) external {
        spend(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes calldata signature
    ) external {
        spend(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    function receiveWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s
    ) external {
        require(to == msg.sender, "TestUsdc: caller must be the payee");
        spend(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function receiveWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes calldata signature
    ) external {
        require(to == msg.sender, "TestUsdc: caller must be the payee");
        spend(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        cancel(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes calldata signature) external {
        cancel(authorizer, nonce, signature);
    }

    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external {
        require(block.timestamp <= deadline, "TestUsdc: permit is expired");
        bytes32 content = keccak256(abi.encode(PERMIT_TYPEHASH, owner, spender, value, nonces[owner]++, deadline));
        require(signedBy(owner, content, abi.encodePacked(r, s, v)), "TestUsdc: invalid signature");
        allow(owner, spender, value);
    }

    // Inside

    /// Spends one authorization. Both ends of its window are exclusive, as in FiatToken v2.
    function spend(
        bytes32 kind, address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes memory signature
    ) private {
        require(block.timestamp > validAfter, "TestUsdc: authorization is not yet valid");
        require(block.timestamp < validBefore, "TestUsdc: authorization is expired");
        require(!authorizationState[from][nonce], "TestUsdc: authorization is used or canceled");
        require(
            signedBy(from, keccak256(abi.encode(kind, from, to, value, validAfter, validBefore, nonce)), signature),
            "TestUsdc: invalid signature"
        );
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        move(from, to, value);
    }

    function cancel(address authorizer, bytes32 nonce, bytes memory signature) private {
        require(!authorizationState[authorizer][nonce], "TestUsdc: authorization is used or canceled");
        require(
            signedBy(authorizer, keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce)), signature),
            "TestUsdc: invalid signature"
        );
        authorizationState[authorizer][nonce] = true;
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function move(address from, address to, uint256 value) private {
        require(from != address(0) && to != address(0), "TestUsdc: transfer from or to the zero address");
        uint256 balance = balanceOf[from];
        require(value <= balance, "TestUsdc: transfer exceeds the balance");
        balanceOf[from] = balance - value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function allow(address owner, address spender, uint256 value) private {
        require(owner != address(0) && spender != address(0), "TestUsdc: approve from or to the zero address");
        allowance[owner][spender] = value;
        emit Approval(owner, spender, value);
    }

    /// An account with code answers for itself, and only so (a delegated EOA too); one without must have signed with its key.
    function signedBy(address signer, bytes32 content, bytes memory signature) private view returns (bool) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
        if (signer.code.length > 0) {
            (bool answered, bytes memory answer) =
                signer.staticcall(abi.encodeCall(ContractWallet.isValidSignature, (digest, signature)));
            return answered && answer.length >= 32 && bytes32(answer) == bytes32(ContractWallet.isValidSignature.selector);
        }
        return signer != address(0) && recovered(digest, signature) == signer;
    }

    /// The signer, or zero for anything but 65 bytes of r, s, v with a low s and v of 27 or 28.
    function recovered(bytes32 digest, bytes memory signature) private pure returns (address) {
        if (signature.length != 65) return address(0);
        bytes32 r;
        uint256 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
        if (s > HALF_ORDER || (v != 27 && v != 28)) return address(0);
        return ecrecover(digest, v, r, bytes32(s));
    }
}
