/** API keys: work that is never charged, records for those who pay nothing, and keys that are repeated. */
import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData, type Hex, parseAbi, parseSignature } from 'viem'
import { channelDigests } from '../../../adapters/chains/evm/channels/digests.ts'
import type { Attack, Outcome } from './attack.ts'
import { isWhole, newAccount, offerFor, ORDERS, post, send, spentBy, TRANSFER, variant, walletWith } from './caller.ts'
import { ask, type Asking, channelFor, deposit, depositAlone, funded, KEYS, newKey, usageOf } from './key_caller.ts'
import type { Target } from './target.ts'

/** Waits after an order with a deposit, in milliseconds: the deposit is then on its way. */
const WAITS = [0, 5, 15, 40, 80]

/** An order by a voucher that waits for its deposit, and meanwhile a lend whose vouchers must cover the order too. */
async function lendBeside(target: Target): Promise<Outcome> {
  let [lost, whole] = [0, 0]
  for (const [i, wait] of WAITS.entries()) {
    const order = variant(ORDERS.stream, i)
    const offer = await offerFor(target, order, 'batch-settlement')
    const { wallet, key } = await funded(target, offer)
    const ordering = post(target, order, await deposit(offer, { wallet, key, price: offer.amount }))
    await pause(wait)
    await ask(target, { path: KEYS, key, body: { name: 'mine', cap: '0.5' } })
    const answer = await ordering
    if (!isWhole(answer)) continue
    whole++
    if ((await usageOf(target, key)) === 0) lost++
  }
  return { tried: WAITS.length, refused: WAITS.length - lost, note: `${whole} answers, ${lost} of them not charged` }
}

const recordsOf = ({ ledger }: Target): Promise<number> =>
  ledger.count('records', `kind LIKE 'channel%' AND expires_at > ${Date.now()}`)

/** Lends that nothing covers, all at once. */
async function lendNothing(target: Target): Promise<Outcome> {
  const { key } = await funded(target, await offerFor(target, ORDERS.chat, 'batch-settlement'))
  const before = await recordsOf(target)
  const lends = (cap: string) =>
    Promise.all(Array.from({ length: 40 }, () => ask(target, { path: KEYS, key, body: { name: 'mine', cap } })))
  const lent = [...(await lends('0.1')), ...(await lends('999'))].filter(({ status }) => status === 200).length
  const stored = (await recordsOf(target)) - before
  const listed = (await ask(target, { path: KEYS, key })).body.data as readonly { status: string }[]
  const active = listed.filter(({ status }) => status === 'active').length
  const lost = Math.max(0, stored - lent) + Math.max(0, lent - 16) + Math.abs(lent - active)
  return { tried: 80, refused: 80 - lost, note: `${lent} lent, ${active} listed as active, ${stored} records` }
}

const TOKEN = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
])

/** Deposits whose nonce the wallet has used up for a transfer of nothing to itself. */
async function depositNothing(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const [wallet, key] = [await walletWith(target, 0n), newKey()]
  const payment = await deposit(offer, { wallet, key, price: '0' })
  const { salt } = (payment.payload as any).deposit.authorization.erc3009Authorization
  const { name, version } = offer.extra as { name: string; version: string }
  const nonce = channelDigests(84_532).depositNonce(channelFor(offer, wallet, key).id, salt)
  const message = { from: wallet.address, to: wallet.address, value: 0n, validAfter: 0n, validBefore: 2n ** 40n, nonce }
  const signature = await wallet.signTypedData({
    domain: { name, version, chainId: 84_532, verifyingContract: offer.asset as Hex },
    types: { TransferWithAuthorization: TRANSFER },
    primaryType: 'TransferWithAuthorization',
    message,
  })
  const { v, r, s } = parseSignature(signature)
  const { from, to, value, validAfter, validBefore } = message
  const data = encodeFunctionData({
    abi: TOKEN,
    functionName: 'transferWithAuthorization',
    args: [from, to, value, validAfter, validBefore, nonce, Number(v), r, s],
  })
  await send(target, wallet, { to: target.asset, data })
  const before = await recordsOf(target)
  const { status } = await depositAlone(target, payment)
  const stored = (await recordsOf(target)) - before
  const lost = status === 200 || stored > 0 ? 1 : 0
  return { tried: 1, refused: 1 - lost, note: `answered ${status}, ${stored} records stored` }
}

/** A key in a path, a member and a prompt: neither the answer nor the log may repeat it, and no vendor may get it. */
async function repeatedKey(target: Target): Promise<Outcome> {
  const key = newKey()
  const { path, body } = ORDERS.chat
  const asks: readonly Asking[] = [
    ...[`${KEYS}/${key.text}/close`, `${KEYS}/${key.text}/revoke`].map((each) => ({ path: each, key, body: {} })),
    ...[`/api/v1/models/${key.text}`, `/api/v1/calls/${key.text}`].map((each) => ({ path: each, key })),
    { path, key, body: { ...body, model: key.text } },
    { path, key, body: { ...body, max_tokens: key.text } },
    { path, key, body: { ...body, messages: [{ role: 'user', content: `it is\n${key.text}` }] } },
  ]
  const answers = await Promise.all(asks.map((each) => ask(target, each)))
  const repeated = answers.filter(({ status, text }) => status < 400 || text.includes(key.text)).length
  await pause(1_500)
  const logged = target.process.printed().split(key.text).length - 1
  const lost = Math.min(asks.length, repeated + logged)
  return {
    tried: asks.length,
    refused: asks.length - lost,
    note: `${repeated} answers repeat the key, ${logged} log lines`,
  }
}

/** Deposits whose money would go to somebody else, or whose claims the gateway could not make in time. */
async function depositElsewhere(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const { address } = newAccount()
  const { sent } = await spentBy(target)
  const { extra } = offer
  const offers = [
    { ...offer, payTo: address },
    { ...offer, extra: { ...extra, receiverAuthorizer: address } },
    { ...offer, extra: { ...extra, withdrawDelay: 900 } },
    { ...offer, extra: { ...extra, withdrawDelay: 2_592_000 } },
  ]
  const statuses: number[] = []
  for (const other of offers) {
    const [wallet, key] = [await walletWith(target, 4_000_000n), newKey()]
    const payment = await deposit(other as typeof offer, { wallet, key, price: '0' })
    for (const accepted of [offer, other])
      statuses.push((await depositAlone(target, { ...payment, accepted } as typeof payment)).status)
    statuses.push((await ask(target, { path: ORDERS.chat.path, key, body: ORDERS.chat.body })).status)
  }
  const lost = (await spentBy(target)).sent - sent + statuses.filter((status) => status === 200).length
  const tried = statuses.length
  return { tried, refused: tried - Math.min(tried, lost), note: `answered ${statuses.join(', ')}` }
}

export const attacks: readonly Attack[] = [
  { family: 'burn', name: 'deposits for keys of another payee, claim key or delay', run: depositElsewhere },
  { family: 'keys', name: 'a lend while an order by a voucher waits for its deposit', run: lendBeside },
  { family: 'keys', name: 'children that nothing covers', run: lendNothing },
  { family: 'keys', name: 'deposits whose nonce the wallet has used up', run: depositNothing },
  { family: 'keys', name: 'keys where none belongs', run: repeatedKey },
]
