/** Who has had an answer and not paid for it. A debt ends when its call is paid, or after a day (house decision 7). */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import type { Call, Owned, Storage } from './ports.ts'

const KIND = 'debt'

/** One debt per wallet and asset: the first one that stands. */
const idOf = ({ payer, asset }: Pick<Call, 'payer' | 'asset'>): string => bytesToHex(sha256(utf8ToBytes(`${asset}\n${payer}`)))

export function debtOf(call: Call, expiresAt: number): Owned {
  return { kind: KIND, id: idOf(call), owner: call.payer, data: { call: call.id }, expiresAt }
}

/** The unpaid call of a wallet; undefined where it owes nothing. */
export async function owedBy(storage: Storage, debtor: Pick<Call, 'payer' | 'asset'>, now: number): Promise<Call | undefined> {
  const debt = await storage.getOwned(KIND, idOf(debtor), now)
  if (!debt) return undefined
  const call = await storage.getCall((debt.data as { call: string }).call)
  if (call && call.money !== 'settled') return call
  // Paid, or forgotten: let the place go, so that the next debt can take it.
  await storage.moveOwned({ ...debt, expiresAt: now }, debt.data, now)
  return undefined
}
