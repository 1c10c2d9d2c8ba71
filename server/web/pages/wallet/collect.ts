/** Gets a result for its wallet: for a sign-in where it is paid for, and for a payment where it is not. */
import { refusal } from '../lib/refusal.ts'
import { readDemand } from '../lib/x402.ts'
import { type Bought, collect as payFor, readResult, type Watching } from '../play/purchase.ts'
import { getAs, type SignedIn } from '../wallets/sign_in.ts'
import { canSign } from '../wallets/wallet.ts'
import type { WalletCall } from './history.ts'

/** Rejects with a sentence for people where there is no result yet, or where it cannot be paid for. */
export async function collect(
  { id, model, endpoint, poll_url: pollUrl, created_at: at }: WalletCall,
  signedIn: SignedIn,
  { step }: Pick<Watching, 'step'>,
): Promise<Bought> {
  if (pollUrl === null) throw new Error('The result has been deleted.')
  const watching: Watching = { step, partly: () => {} }
  step('Waiting for the signature')
  const reply = await getAs(signedIn, pollUrl)
  if (reply.status === 202)
    throw new Error('It is still being made. Come back in a little while; nothing is charged until then.')
  if (reply.ok) return await readResult(reply, watching)
  if (reply.status !== 402) throw await refusal(reply)
  const { accepts, message } = await readDemand(reply)
  const { wallet, address } = signedIn
  const offer = accepts.find((each) => canSign(wallet.family, each))
  if (!offer) throw new Error(message)
  const { amount, network } = offer
  const order = { title: model ?? endpoint, method: 'GET' as const, path: pollUrl }
  return await payFor(
    { id, at: Date.parse(at), order, amount, network, status: 'waiting', pollUrl },
    { offer, wallet, address },
    watching,
  )
}
