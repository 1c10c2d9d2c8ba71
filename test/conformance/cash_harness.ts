/** The cash chain with the hands that the chain laws need. */
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Payment } from '../../core/x402/protocol.ts'
import type { ChainHarness, Forgery } from './chains.ts'
import type { Subject } from './law.ts'

const START = Date.UTC(2026, 10, 20)

export function cashHarness(): ChainHarness {
  let requestCount = 0
  let wallets = 0
  let marked = 0
  const cash = memoryChain({ before: () => void requestCount++ })
  const balance = (address: string) => cash.balanceOf(address)
  let now = START
  cash.advance(now)
  return {
    chain: cash,
    offer: cash.offer(10_000n),
    now: () => now,
    async payer(amount = 1_000_000n) {
      const address = cash.wallet(`payer ${wallets++}`)
      cash.fund(address, amount)
      return { address }
    },
    async sign(payer, offer, { forge, ...signing } = {}) {
      const forged = {
        ...(forge === 'another key' ? { by: cash.wallet('somebody else') } : {}),
        ...(forge === 'another domain' ? { name: 'USD Coin' } : {}),
      }
      const payment = cash.sign(offer, { from: payer.address, now, ...signing, ...forged })
      return { ...payment, payload: { ...payment.payload, signature: bent(payment, forge) } }
    },
    balanceOf: async (address) => balance(address),
    async fund(payer, amount) {
      cash.drain(payer.address)
      cash.fund(payer.address, amount)
    },
    async transfersIn(transaction) {
      return cash.transfers
        .filter((each) => each.transaction === transaction)
        .map(({ from, to, value }) => ({ from: from.toLowerCase(), to, value }))
    },
    cancel: async (_, payment) => cash.cancel(payment),
    async submit(payment) {
      if (!cash.submit(payment)) throw new Error('the token reverted')
    },
    async mineAt(seconds) {
      now = seconds * 1000
      cash.advance(now)
    },
    reads: () => requestCount,
    outage: cash.outage,
    drop(what) {
      cash.simulate(what === 'sends' ? 'dropped' : 'landed')
      return new Promise(() => {}) // it says unknown by itself
    },
    recover() {},
    mark: () => void (marked = cash.height()),
    rewind: (on) => cash.lag(on ? cash.height() - marked : 0),
  }
}

export async function cashSubject(harness = cashHarness()): Promise<Subject<ChainHarness>> {
  return { open: async () => harness, close: async () => {} }
}

function bent(payment: Payment, forge: Forgery | undefined): string {
  const signature = String(payment.payload.signature)
  if (forge === 'high s') return `${signature.slice(0, 66)}f${signature.slice(67)}`
  if (forge === 'too short') return signature.slice(0, -2)
  if (forge === 'too long') return `${signature}00`
  return signature
}
