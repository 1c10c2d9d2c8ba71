/** The characters that a wallet has enrolled. */
import { Type } from '@sinclair/typebox'
import { free, type FreeContext } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import type { Call } from '../../ports/mod.ts'
import { canEnroll } from './character_vendor.ts'
import { CHARACTER, type Character, isDelivered } from './owned_characters.ts'
import { sampleWallet, WALLET_LISTS, walletOf } from '../lib/wallet_lists.ts'

const MAX_LISTED = 200
const MAX_READ = 10_000

type PaidCharacter = { readonly id: string; readonly data: Character; readonly call: Call }

/** Newest first, without unpaid ones. */
export async function charactersOf(
  wallet: string,
  type: Character['type'],
  { records, clock }: FreeContext,
): Promise<readonly PaidCharacter[]> {
  const stored = await CHARACTER.list(records, wallet, { now: clock.now(), limit: MAX_READ })
  const ofType = stored.filter(({ data }) => data.type === type)
  const found: PaidCharacter[] = []
  for (const each of ofType) {
    const call = await records.getCall(each.data.call)
    if (isDelivered(call)) found.push({ ...each, call })
  }
  return found.toSorted((one, other) => other.data.createdAt - one.data.createdAt || (one.id < other.id ? -1 : 1))
}

function list(field: 'portraits' | 'realfaces', { type, summary }: { type: Character['type']; summary: string }) {
  return free({
    name: `wallet.${field}`,
    path: `/api/v1/wallet/{address}/${field}`,
    summary,
    description: `Newest first, ${MAX_LISTED} at most; count is the number of all.`,
    tag: 'wallet',
    isOffered: canEnroll,
    limit: WALLET_LISTS,
    sample: (offering) => ({ path: { address: sampleWallet(offering) } }),
    errors: ['INVALID_BODY'],
    output: Type.Object({
      wallet: Type.String(),
      [field]: Type.Array(
        Type.Object({
          assetId: Type.String(),
          groupId: Type.String(),
          name: Type.String(),
          imageUrl: Type.String(),
          createdAt: Type.String(),
          enrollmentTxHash: Type.Union([Type.String(), Type.Null()], {
            description: 'Null where its payment has not settled.',
          }),
        }),
      ),
      count: Type.Integer(),
    }),
    async answer({ params, origin }, context) {
      const { gateway, objects } = context
      const wallet = walletOf(params.address ?? '', gateway)
      const all = await charactersOf(wallet, type, context)
      const href = (key: string) => objects.url?.(key) ?? `${origin}/api/media/${key}`
      const listed = all
        .slice(0, MAX_LISTED)
        .map(({ id, data: { group, name, source, mediaKey, createdAt }, call }) => ({
          assetId: id,
          groupId: group,
          name,
          imageUrl: mediaKey === null ? source : href(mediaKey),
          createdAt: new Date(createdAt).toISOString(),
          enrollmentTxHash: call.receipt?.transaction ?? null,
        }))
      return json(200, { wallet, [field]: listed, count: all.length }, { 'cache-control': 'private, max-age=30' })
    },
  })
}

export const walletCharacters = [
  list('portraits', { type: 'portrait', summary: 'The invented characters that a wallet has enrolled' }),
  list('realfaces', { type: 'face', summary: 'The real faces that a wallet has enrolled' }),
]
