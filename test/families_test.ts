/**
 * A chain answers for itself. This counts the files outside `adapters/chains` whose code names a family of chains:
 * another one would have to touch each of them. The list may only become shorter; comments do not count.
 */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathsIn } from './graph.ts'

const ROOT = join(import.meta.dirname, '..')
/** `\b` keeps `litesvm`, `hevm` and the currency SOL out. */
const NAMES = /\bsolana|solana\b|Solana|SOLANA|\bevm\b|\bevm[A-Z]|Evm\b|Evm[A-Z]|\bEVM|eip155/

const WALLET = 'the wallet of the CLI or of a page signs as its family does'
const DEVNET = 'runs the local chains themselves'
const GUIDE = 'shows buyers how to sign, family by family'
const MPP = 'signs the method evm/charge of MPP, which is defined on EIP-155 networks'

/** Each file that names a family, and why it stays. */
const REASONS: Readonly<Record<string, string>> = {
  'adapters/mod.ts': 'the public door exports the chains by name',
  'server/devnet/demo/market.ts': 'a symbol of the demo',
  'adapters/providers/json_rpc/mod.ts': 'documents a setting of the RPC product',
  'adapters/providers/json_rpc/nodes.ts': 'nodes that are sold: Solana’s are slower',
  'adapters/providers/polymarket/bridge.ts': 'networks and field names of the vendor',
  'core/discovery/llms.ts': GUIDE,
  'core/discovery/reference_script.ts': GUIDE,
  'core/discovery/signing_guide.ts': GUIDE,
  'core/payment/settlement/secondary_payment.ts': 'an error text',
  'core/products/rpc/networks.ts': 'networks whose nodes are sold, paid on or not',
  'core/products/rpc/rpc.ts': 'methods of nodes that are sold, by family',
  'core/products/wallet/funding.ts': 'an example',
  'server/buyer/channel_files.ts': WALLET,
  'server/cli/buy.ts': 'help: names of the gateways of devnet',
  'server/cli/buy/channel.ts': WALLET,
  'server/cli/buy/evm_wallet.ts': WALLET,
  'server/cli/buy/solana_wallet.ts': WALLET,
  'server/cli/buy/wallet.ts': WALLET,
  'server/cli/init.ts': 'asks a new operator which chain to be paid on',
  'server/cli/key/deposit.ts': WALLET,
  'server/cli/keys.ts': 'makes keys of each family, by an option',
  'server/cli/lib/evm_key.ts': WALLET,
  'server/cli/lib/new_key.ts': WALLET,
  'server/cli/lib/solana_key.ts': WALLET,
  'server/cli/proxy.ts': WALLET,
  'server/cli/publish/lists.ts': 'which lists of sellers take which networks',
  'server/cli/reconcile.ts': 'help and an error text',
  'server/cli/wallet.ts': WALLET,
  'server/config/gateways.ts': 'documents two settings',
  'server/config/services/products.ts': 'documents a setting',
  'server/devnet/compile.ts': DEVNET,
  'server/devnet/mod.ts': DEVNET,
  'server/devnet/solana/faucet.ts': DEVNET,
  'server/devnet/solana/ledger.ts': DEVNET,
  'server/devnet/solana/mod.ts': DEVNET,
  'server/devnet/solana/node.ts': DEVNET,
  'server/devnet/solana/params.ts': DEVNET,
  'server/devnet/solana/rpc.ts': DEVNET,
  'server/devnet/solana/tokens.ts': DEVNET,
  'server/devnet/solana/transaction.ts': DEVNET,
  'server/devnet/solana/views.ts': DEVNET,
  'server/listen.ts': DEVNET,
  'server/main.ts': DEVNET,
  'server/proxy/mpp.ts': MPP,
  'server/web/pages/lib/snippets.ts': GUIDE,
  'server/web/pages/play/purchase.ts': 'how long a signed payment of a family can still be taken',
  'server/web/pages/wallets/injected.ts': WALLET,
  'server/web/pages/wallets/play.ts': WALLET,
  'server/web/pages/wallets/sign_in.ts': WALLET,
  'server/web/pages/wallets/solana.ts': WALLET,
  'server/web/pages/wallets/solana_transfer.ts': WALLET,
  'server/web/pages/wallets/standard.ts': WALLET,
  'server/web/pages/wallets/wallet.ts': WALLET,
  'server/wiring/devnet.ts': DEVNET,
  'server/wiring/gateways.ts': DEVNET,
}
const MOST = 55

const withoutComments = (text: string): string => text.replace(/\/\*[^]*?\*\/|(?<=^|[\s;{}(])\/\/ .*$/gm, '')

test('a file outside the families of chains names one only for a reason in this list', () => {
  const naming = pathsIn(['core', 'adapters', 'server']).filter(
    (path) =>
      /(?<!\.d)\.tsx?$/.test(path) &&
      !path.startsWith('adapters/chains/') &&
      NAMES.test(withoutComments(readFileSync(join(ROOT, path), 'utf8'))),
  )
  expect(naming.filter((path) => !(path in REASONS))).toEqual([])
  expect(Object.keys(REASONS).filter((path) => !naming.includes(path))).toEqual([])
  expect(naming.length).toBeLessThanOrEqual(MOST)
})

test('the search finds names in code and texts, and none in comments', () => {
  const isFound = (text: string) => NAMES.test(withoutComments(text))
  expect(["if (kind === 'evm') return", 'evmChain()', "x.startsWith('eip155:')", 'onSolana()'].map(isFound)).toEqual(
    Array(4).fill(true),
  )
  expect(['// on Solana\n', '/** an EVM chain */', "import 'litesvm'", 'hevm: 1'].map(isFound)).toEqual(
    Array(4).fill(false),
  )
})
