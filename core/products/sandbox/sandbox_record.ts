/** The stored sandboxes: those of a wallet, and those that maintenance ends unless they are paid for. */
import { Type } from '@sinclair/typebox'
import type { Offering, Order } from '../../endpoint/mod.ts'
import { recordKind } from '../../endpoint/record_kind.ts'
import { type MaintenanceTask, callContextIn } from '../../endpoint/call_context.ts'
import { ApiError } from '../../http/errors.ts'
import type { SandboxVendor } from '../../ports/vendors/sandbox.ts'

/** A sandbox of a wallet. */
export const SANDBOX = recordKind({
  kind: 'sandbox',
  version: 1,
  schema: Type.Object({ vendor: Type.String(), handle: Type.String(), ends: Type.Number() }),
})

/** Sandboxes that outlive their claim window, stored under one owner that is not a wallet. */
const WATCHED = recordKind({
  kind: 'sandbox_unpaid',
  version: 1,
  schema: Type.Object({ vendor: Type.String(), handle: Type.String(), call: Type.String(), due: Type.Number() }),
})
const WATCHERS = 'sandboxes'
const MAX_WATCHED = 1_000
type Watched = Parameters<typeof WATCHED.put>[1]['data']

/** A sandbox of the payer. Others are reported as not found. */
export async function sandboxOfPayer(
  order: Order<unknown>,
  id: string,
): Promise<{ vendor: SandboxVendor; handle: string; isOver: boolean }> {
  const vendor = vendorIn(order)
  const record = await SANDBOX.get(order.records, id, order.clock.now())
  if (record?.owner !== order.payer || record.data.vendor !== vendor.name) {
    throw new ApiError('NOT_FOUND', { message: 'This wallet has no such sandbox here. Nothing was charged.' })
  }
  const { handle, ends } = record.data
  return { vendor, handle, isOver: ends <= order.clock.now() }
}

/** Stores a sandbox before its buyer gets it, so that maintenance can end it when it is due, even after a crash. */
export async function watchUnpaid(order: Order<unknown>, data: Watched, expiresAt: number): Promise<void> {
  const record = { id: order.id, owner: WATCHERS, data, expiresAt }
  await WATCHED.put(callContextIn(order).records, record, order.clock.now())
}

/** Ends sandboxes that were not paid within their claim window. A settlement in progress is left alone. */
export async function endUnpaid({
  records,
  vendors: { sandbox },
  clock,
  log,
  signal,
}: Parameters<MaintenanceTask['do']>[0]): Promise<void> {
  const now = clock.now()
  const due = (await WATCHED.list(records, WATCHERS, { now, limit: MAX_WATCHED })).filter(({ data }) => data.due <= now)
  const checks = due.map(async (record) => {
    const { vendor, handle, call } = record.data
    const money = (await records.getCall(call))?.paymentStatus
    if (money === 'settling' || money === 'unresolved' || sandbox?.name !== vendor) return
    if (money !== 'settled') await sandbox.terminate(handle, { signal })
    await WATCHED.move(records, record, { expiresAt: now }, now)
  })
  for (const each of await Promise.allSettled(checks))
    if (each.status === 'rejected')
      log.alert('an unpaid sandbox could not be terminated', { error: (each.reason as Error).message })
}

export function vendorIn({ vendors }: { readonly vendors: Offering['vendors'] }): SandboxVendor {
  if (vendors.sandbox) return vendors.sandbox
  throw new ApiError('NOT_CONFIGURED', { message: 'sandbox: the operator has not configured it. Nothing was charged.' })
}
