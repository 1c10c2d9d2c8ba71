import { expect, test } from 'bun:test'
import type { BridgeVendor } from '../../../core/mod.ts'
import type { GatewayConfig } from '../../../server/config/gateways.ts'
import { tellWhyNoDeposits } from '../../../server/wiring/services.ts'
import { testLog } from '../../kit.ts'

test('a bridge that takes deposits on none of the gateways’ networks is off, and the start says why (contract 18.15)', () => {
  const bridge: BridgeVendor = { networks: ['eip155:8453', 'eip155:137'], depositAddress: async () => '0x' }
  const gateways = (...networks: string[]) =>
    networks.map((network) => ({ name: network, paymentMethods: [{ kind: 'evm', network }] })) as unknown as Pick<
      GatewayConfig,
      'name' | 'paymentMethods'
    >[]
  const report = (vendors: { bridge?: BridgeVendor }, ...networks: string[]) => {
    const log = testLog()
    tellWhyNoDeposits(vendors, gateways(...networks), log)
    return log.lines.map(({ level, message, fields }) => ({ level, message, fields }))
  }
  expect(report({ bridge }, 'eip155:84532', 'eip155:84532')).toEqual([
    {
      level: 'warn',
      message: 'off: Polymarket funding, because its bridge accepts no deposits on the networks of the gateways',
      fields: { bridge: ['eip155:8453', 'eip155:137'], gateways: ['eip155:84532'] },
    },
  ])
  expect([report({ bridge }, 'eip155:84532', 'eip155:8453'), report({}, 'eip155:84532')]).toEqual([[], []])
})
