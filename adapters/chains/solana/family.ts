/** The family of Solana's networks. */
import type { ChainFamily } from '../../../core/ports/mod.ts'
import { solanaCharge } from './charge.ts'
import { SOLANA_NETWORKS } from './networks.ts'

const BASE58 = '[1-9A-HJ-NP-Za-km-z]'
const ADDRESS = `${BASE58}{32,44}`
const isAddress = new RegExp(`^${ADDRESS}$`)

export const solanaFamily: ChainFamily = {
  namespace: 'solana',
  accountName: 'Solana',
  proofType: 'ed25519',
  networkPattern: `solana:${BASE58}{32}`,
  addressPattern: ADDRESS,
  addressForm: 'a base58 wallet address',
  networkForm: 'solana:<genesis hash>',
  addressWords: '32 to 44 base58 characters on Solana',
  walletForm: 'a Solana key',
  sampleAddress: '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU',
  addressOf: (text) => (isAddress.test(text) ? text : undefined),
  clientsAskNode: true,
  // A transaction can be sent for 150 blocks after its blockhash, and more.
  leastValiditySeconds: 180,
  retriesByPaying: true,
  networks: SOLANA_NETWORKS,
  charge: solanaCharge,
}
