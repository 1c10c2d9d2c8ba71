/**
 * The endpoint laws on every gateway of the inventory (contract 21.1): the same endpoints, whatever the row says of
 * network, offers and catalog.
 */
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { catalog, narrowed, SMALL } from '../../core/mod.ts'
import { endpointLaws } from '../conformance/endpoints.ts'
import { EXCEPT, OF_THEIR_OWN } from '../conformance/exceptions.ts'
import { runLaws } from '../conformance/law.ts'
import { streamedLaws, streamedFixture, ordersOf } from '../conformance/live_endpoints.ts'
import { oneOfEachDelivery } from '../conformance/representatives.ts'
import { isOneShot, oneShotLaws } from '../conformance/one_shots.ts'
import { endpointFixture } from '../conformance/endpoint_fixture.ts'
import type { KitOptions } from '../kit.ts'

const SOLANA = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
const small = narrowed(catalog(), SMALL)

/** Rows beside the default one, which `endpoints_test` runs; their chains pass the chain laws on their own. */
const rows: Readonly<Record<string, () => KitOptions>> = {
  solana: () => ({
    name: 'solana',
    label: 'solana-devnet',
    networks: [SOLANA],
    unverifiable: 402,
    chain: memoryChain({ network: SOLANA }),
  }),
  nano: () => ({
    name: 'nano',
    label: 'base',
    networks: ['eip155:8453'],
    chain: memoryChain({ network: 'eip155:8453', domain: { name: 'GatewayWalletBatched', version: '1' } }),
  }),
  testnet: () => ({ name: 'testnet', label: 'base-sepolia', networks: ['eip155:84532'], catalog: small }),
}

for (const [name, row] of Object.entries(rows)) {
  for (const endpoint of oneOfEachDelivery()) {
    if (endpoint.kind === 'sold' && endpoint.delivery === 'stream')
      for (const order of ordersOf(endpoint, row().catalog))
        runLaws(`${name}: ${endpoint.name}${order.isStream ? ' streamed' : ''}`, streamedLaws, () =>
          streamedFixture(endpoint, order, { setup: row }),
        )
    if (endpoint.kind !== 'sold' || endpoint.delivery === 'stream' || OF_THEIR_OWN.has(endpoint.name)) continue
    if (isOneShot(endpoint))
      runLaws(`${name}: ${endpoint.name}`, oneShotLaws, () => endpointFixture(endpoint, {}, row), {
        except: EXCEPT[endpoint.name] ?? {},
      })
    if (!isOneShot(endpoint))
      runLaws(`${name}: ${endpoint.name}`, endpointLaws, () => endpointFixture(endpoint, {}, row))
  }
}
