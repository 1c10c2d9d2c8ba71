/** How to sign a payment, as text: for programs that have no client of x402. The guide `paying` has the same. */

/** Stands for the origin of the gateway. */
export const EXAMPLE_ORIGIN = 'https://ai.example.com'

/** Markdown, with headings of the third level. */
export const SIGNING_GUIDE = `An offer of \`accepts\` with \`scheme\` \`exact\` and a \`network\` that begins with \`eip155:\` is paid by one signature: EIP-712 typed data, the authorization of a USDC transfer (EIP-3009). Nothing is sent to a chain by the buyer.

### What is signed

\`\`\`json
{
  "types": {
    "EIP712Domain": [
      { "name": "name", "type": "string" },
      { "name": "version", "type": "string" },
      { "name": "chainId", "type": "uint256" },
      { "name": "verifyingContract", "type": "address" }
    ],
    "TransferWithAuthorization": [
      { "name": "from", "type": "address" },
      { "name": "to", "type": "address" },
      { "name": "value", "type": "uint256" },
      { "name": "validAfter", "type": "uint256" },
      { "name": "validBefore", "type": "uint256" },
      { "name": "nonce", "type": "bytes32" }
    ]
  },
  "primaryType": "TransferWithAuthorization",
  "domain": { "name": "extra.name", "version": "extra.version", "chainId": "number after eip155:", "verifyingContract": "asset" },
  "message": { "from": "your address", "to": "payTo", "value": "amount", "validAfter": 0, "validBefore": "now + maxTimeoutSeconds", "nonce": "32 random bytes" }
}
\`\`\`

\`extra\`, \`asset\`, \`payTo\`, \`amount\` and \`maxTimeoutSeconds\` are members of the offer; times are seconds since 1970. A nonce pays once.

### What is sent

The header \`PAYMENT-SIGNATURE\` is Base64 of this JSON. \`accepted\` is the offer, unchanged. Numbers of the authorization are strings here.

\`\`\`json
{
  "x402Version": 2,
  "accepted": { "scheme": "exact", "network": "eip155:8453", "…": "every member of the offer" },
  "payload": {
    "signature": "0x… 65 bytes",
    "authorization": { "from": "0x…", "to": "0x…", "value": "2000", "validAfter": "0", "validBefore": "1800000600", "nonce": "0x…" }
  }
}
\`\`\`

### In Python

\`pip install eth_account\`; the key of the wallet is in \`WALLET_KEY\`:

\`\`\`python
import base64, json, os, secrets, time, urllib.request
from eth_account import Account

key, url = os.environ["WALLET_KEY"], "${EXAMPLE_ORIGIN}/api/v1/chat/completions"
order = {"model": "MODEL", "messages": [{"role": "user", "content": "Hello"}]}

def post(headers={}):
    sent = urllib.request.Request(url, json.dumps(order).encode(), {"content-type": "application/json", **headers})
    try: return json.load(urllib.request.urlopen(sent))
    except urllib.error.HTTPError as refused: return json.load(refused)

offer = next(o for o in post()["accepts"] if o["scheme"] == "exact" and o["network"].startswith("eip155:"))
message = {"from": Account.from_key(key).address, "to": offer["payTo"], "value": int(offer["amount"]), "validAfter": 0,
           "validBefore": int(time.time()) + offer["maxTimeoutSeconds"], "nonce": "0x" + secrets.token_hex(32)}
kinds = {"from": "address", "to": "address", "value": "uint256", "validAfter": "uint256", "validBefore": "uint256", "nonce": "bytes32"}
types = {"TransferWithAuthorization": [{"name": name, "type": kind} for name, kind in kinds.items()]}
domain = {"name": offer["extra"]["name"], "version": offer["extra"]["version"],
          "chainId": int(offer["network"].split(":")[1]), "verifyingContract": offer["asset"]}
signature = "0x" + bytes(Account.sign_typed_data(key, domain, types, message).signature).hex()
authorization = {name: str(value) for name, value in message.items()}
payment = {"x402Version": 2, "accepted": offer, "payload": {"signature": signature, "authorization": authorization}}
print(post({"PAYMENT-SIGNATURE": base64.b64encode(json.dumps(payment).encode()).decode()}))
\`\`\`

### With curl and cast

\`jq\` takes the offer apart, and \`cast\` of Foundry signs:

\`\`\`sh
URL=${EXAMPLE_ORIGIN}/api/v1/chat/completions
ORDER='{"model":"MODEL","messages":[{"role":"user","content":"Hello"}]}'
FROM=$(cast wallet address --private-key "$WALLET_KEY")
OFFER=$(curl -s "$URL" -H 'content-type: application/json' -d "$ORDER" |
  jq -c '[.accepts[] | select(.scheme == "exact" and (.network | startswith("eip155:")))][0]')
AUTHORIZATION=$(jq -nc --argjson o "$OFFER" --arg from "$FROM" --arg nonce "0x$(openssl rand -hex 32)" \\
  '{from: $from, to: $o.payTo, value: $o.amount, validAfter: "0", validBefore: (now + $o.maxTimeoutSeconds | floor | tostring), nonce: $nonce}')
TYPED=$(jq -nc --argjson o "$OFFER" --argjson message "$AUTHORIZATION" '{
  types: {
    EIP712Domain: [["name", "string"], ["version", "string"], ["chainId", "uint256"], ["verifyingContract", "address"]],
    TransferWithAuthorization: [["from", "address"], ["to", "address"], ["value", "uint256"], ["validAfter", "uint256"], ["validBefore", "uint256"], ["nonce", "bytes32"]]
  } | map_values(map({name: .[0], type: .[1]})),
  primaryType: "TransferWithAuthorization",
  domain: {name: $o.extra.name, version: $o.extra.version, chainId: ($o.network | split(":")[1] | tonumber), verifyingContract: $o.asset},
  message: $message
}')
SIGNATURE=$(cast wallet sign --private-key "$WALLET_KEY" --data "$TYPED")
PAYMENT=$(jq -nc --argjson o "$OFFER" --argjson a "$AUTHORIZATION" --arg s "$SIGNATURE" \\
  '{x402Version: 2, accepted: $o, payload: {signature: $s, authorization: $a}}' | base64 | tr -d '\\n')
curl -i "$URL" -H 'content-type: application/json' -d "$ORDER" -H "PAYMENT-SIGNATURE: $PAYMENT"
\`\`\`

### What may go wrong

- 402 with a \`code\`: the payment was refused and nothing was charged; \`message\` says what to mend.
- 202: a job. GET its \`poll_url\` with the same header, every 2 to 5 seconds, until the result is there.
- No answer: send the same request with the same header. It is charged once.
- A wallet that signs must own the USDC on that network; it needs no ether.`
