/** The family of EVM networks. */
import { checksummed } from '../../../core/lib/mod.ts'
import type { ChainFamily } from '../../../core/ports/mod.ts'
import { evmCharge } from './charge.ts'
import { EVM_NETWORKS } from './networks.ts'

const ADDRESS = '0x[0-9a-fA-F]{40}'
const ADDRESS_FORM = '0x and 40 hex digits'
const isAddress = new RegExp(`^${ADDRESS}$`)

export const evmFamily: ChainFamily = {
  namespace: 'eip155',
  accountName: 'Ethereum',
  proofType: 'eip191',
  networkPattern: 'eip155:[0-9]{1,12}',
  addressPattern: ADDRESS,
  addressForm: ADDRESS_FORM,
  networkForm: 'eip155:<chain id>, such as eip155:8453 for Base',
  addressWords: ADDRESS_FORM,
  walletForm: 'an EVM address',
  sampleAddress: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
  addressOf: (text) => (isAddress.test(text) ? checksummed(text) : undefined),
  signsTransfers: true,
  networks: EVM_NETWORKS,
  charge: evmCharge,
}
