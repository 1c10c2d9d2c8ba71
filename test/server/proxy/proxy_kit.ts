/** The proxy before a seller that a test writes, with a real wallet and a journal in memory. Loopback only. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privateKeyToAccount } from 'viem/accounts'
import { decodeObject, encodeHeader } from '../../../core/x402/mod.ts'
import { capOf } from '../../../server/buyer/budget.ts'
import { openJournal } from '../../../server/buyer/journal.ts'
import { walletOf } from '../../../server/cli/buy/wallet.ts'
import { listenLocally } from '../../../server/proxy/listen.ts'
import { type PaidCall, proxy, type ProxyOptions } from '../../../server/proxy/mod.ts'
import { payeeList } from '../../../server/proxy/payees.ts'

/** Libraries of buyers read the clock of the machine: tests set it to this. */
export const NOW = Date.UTC(2026, 10, 24, 12)

export const TOKEN = `sk-proxy-${'t'.repeat(43)}`
export const PAYEE = '0x41FD86E5A01411C2D7dd4F08f4CE5FEF159af01b'
const KEY = `0x${'11'.repeat(32)}` as const
export const PAYER = privateKeyToAccount(KEY).address

export const OFFER = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '2000',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payTo: PAYEE,
  maxTimeoutSeconds: 300,
  extra: { name: 'USDC', version: '2' },
}

/** A 402 with these offers in its body, and more members. */
export const demand = (accepts: readonly object[] = [OFFER], more: object = {}) =>
  Response.json({ x402Version: 2, error: 'Payment Required', accepts, ...more }, { status: 402 })

export type Received = { readonly request: Request; readonly body: string; readonly payment: any }

/** A seller that answers as it is told, and remembers what it was received. */
export function seller(answer: (received: Received) => Response | Promise<Response>) {
  const received: Received[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const payment = decodeObject(request.headers.get('payment-signature') ?? '')
      const each = { request, body: await request.text(), payment }
      received.push(each)
      return await answer(each)
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  const payments = () => received.flatMap(({ payment }) => (payment ? [payment] : []))
  const nonces = () => payments().map(({ payload }) => payload.authorization.nonce as string)
  return { url, received, payments, nonces, stop: () => server.stop(true) }
}

/** A seller that asks for OFFER and serves who pays it. */
export const honest = (
  serve: (received: Received) => Response | Promise<Response> = () => Response.json({ ok: true }),
) => seller((received) => (received.payment ? serve(received) : demand()))

export type Started = Awaited<ReturnType<typeof startProxy>>

export async function startProxy(to: string, given: Partial<ProxyOptions> = {}) {
  const scratch = mkdtempSync(join(tmpdir(), 'farebox-proxy-'))
  const calls: PaidCall[] = []
  const questions: string[] = []
  let port = 0
  const clock = { now: NOW }
  const now = () => clock.now
  const journal = openJournal(join(scratch, 'spending.db'), now)
  const handle = proxy({
    to,
    port: () => port,
    token: TOKEN,
    money: 'test',
    caps: { perCall: capOf('0.10'), perDay: capOf('5'), perSession: undefined },
    journal,
    payees: payeeList({ path: join(scratch, 'payees.json'), only: [PAYEE], ask: undefined }),
    models: undefined,
    async signer(offer) {
      const { scheme } = await walletOf(KEY, { rpcUrl: undefined, offer, origin: to })
      return {
        account: privateKeyToAccount(KEY),
        sign: async (taken) => ({ payload: (await scheme.client.createPaymentPayload(2, taken as never)).payload }),
      }
    },
    now,
    wait: async () => {},
    report: (call) => void calls.push(call),
    ...given,
  })
  const listener = listenLocally(0, handle)
  port = listener.port
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    scratch,
    calls,
    questions,
    clock,
    journal,
    /** Sends a chat request as a program would. */
    chat: (headers: Record<string, string> = {}, body: object = { model: 'a', messages: [] }, signal?: AbortSignal) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
        ...(signal && { signal }),
      }),
    async stop() {
      await listener.stop()
      journal.close()
      rmSync(scratch, { recursive: true, force: true })
    },
  }
}

export { encodeHeader }
