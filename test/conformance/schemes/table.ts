/** By way to pay and promise: the promise's own test, a test of the scheme alone, or why it cannot be broken. */
import type { Cell, Row, Table } from './scheme.ts'

const run: Cell = { kind: 'run' }
const reason = (why: string): Cell => ({ kind: 'reason', why })
const tested = (file: string, title: string): Cell => ({ kind: 'tested', file, title })

/** The gateway closes by its clock before any chain or service is asked, whatever it is paid in. */
const clock = tested('adapters/shared_clock_test.ts', 'sells beyond a quarter lease of skew nothing, and says so once')
const KEYS_ON_A_NODE = 'adapters/chains/evm/channels/keys/keys_full_test.ts'
const KEY_ATTACKS = 'core/call/key_attacks_test.ts'
const NO_DEPOSIT = 'nothing is deposited: what is not charged has never left the wallet'

const everywhere = {
  identity: run,
  published: run,
  drained: run,
  drained_stream: run,
  parallel: run,
  nonces: run,
  lists: run,
  limits: run,
  metering: run,
  reports: run,
  receipts: run,
  new_wallets: run,
  kill: run,
  pause: run,
  clock,
  unreadable_balance: run,
  no_gas: run,
} satisfies Partial<Row>

export const TABLE: Table = {
  'evm/exact': {
    ...everywhere,
    gas: run,
    refunds: reason(NO_DEPOSIT),
  },
  'evm/charge': {
    ...everywhere,
    gas: reason('its authorization is settled by the code of exact, whose row is run on a node'),
    refunds: reason(NO_DEPOSIT),
  },
  'evm/upto': {
    ...everywhere,
    gas: run,
    refunds: reason(NO_DEPOSIT),
  },
  'evm/batch-settlement': {
    ...everywhere,
    new_wallets: reason(
      'a deposit is mined before the work, and its owner cannot withdraw it for fifteen minutes: open calls are covered',
    ),
    unreadable_balance: reason(
      'a channel whose balance cannot be read is unavailable: no call of it opens, so none is open without a balance',
    ),
    gas: run,
    refunds: tested(
      'adapters/chains/evm/channels/refunds_full_test.ts',
      'what is due is claimed and paid out, and what is left goes back to the payer, in one transaction',
    ),
  },
  'evm/keys': {
    ...everywhere,
    published: tested(KEY_ATTACKS, 'what a claim publishes of a key buys, reads and refunds nothing (contract 23.8)'),
    nonces: tested(
      KEYS_ON_A_NODE,
      'nobody but the gateway makes the payment of a key: a caller that sends one is refused',
    ),
    new_wallets: reason(
      'a deposit is mined before the first call, and its owner cannot withdraw it for fifteen minutes: open calls are covered',
    ),
    kill: tested(
      KEY_ATTACKS,
      'a process that ends at any write of a call charges it once or not at all, and reserves nothing for long (contract 23.6)',
    ),
    pause: tested(
      KEY_ATTACKS,
      'a node that does not answer is 503 and charges nothing, and the key is served when it is back (contract 23.7)',
    ),
    unreadable_balance: reason(
      'a key whose channel cannot be read is 503: no call of it opens, so none is open without a balance',
    ),
    gas: run,
    refunds: tested(
      KEYS_ON_A_NODE,
      'a deposit without a call funds a key, once; calls are charged and the rest is sent back to the unit',
    ),
  },
  'evm/facilitators': {
    ...everywhere,
    gas: reason('the facilitator sends and pays for the transactions; the gateway has no account on the chain'),
    refunds: reason(NO_DEPOSIT),
  },
  'solana/fee_payer': {
    ...everywhere,
    gas: tested(
      'adapters/chains/solana/attacks_test.ts',
      'a buyer sets the priority fee as high as the price allows, and never above a ten-thousandth of a SOL (contract 21.16)',
    ),
    refunds: reason(NO_DEPOSIT),
  },
  'solana/charge': {
    ...everywhere,
    gas: reason('its transaction is settled by the code of exact, with the limits of its fee: the row of fee_payer'),
    refunds: reason(NO_DEPOSIT),
  },
  'solana/facilitators': {
    ...everywhere,
    gas: reason('the facilitator is the fee payer; the gateway has no account on the chain'),
    refunds: reason(NO_DEPOSIT),
  },
  batched: {
    ...everywhere,
    gas: reason('the service moves money between deposits, in transactions of its own; the gateway sends none'),
    refunds: reason('deposits are kept and paid back by the service; the gateway cannot hold them'),
  },
}
