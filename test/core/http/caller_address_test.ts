import { describe, expect, test } from 'bun:test'
import { addressKey } from '../../../core/http/caller_address.ts'
import { kit, ORIGIN } from '../../kit.ts'

describe('addressKey()', () => {
  test('is the same for all addresses of an IPv6 /64, however they are written, and differs between two of them (contract 4.15)', () => {
    const [block, ...same] = [
      '2001:db8:1:2::1',
      '2001:0DB8:0001:0002:ffff:ffff:ffff:ffff',
      '2001:db8:1:2::',
      '2001:db8:1:2::192.0.2.1',
      '2001:db8:1:2::1%eth0',
    ]
    for (const address of same) expect([address, addressKey(address)]).toEqual([address, addressKey(block ?? '')])
    expect(addressKey('2001:db8:1:3::1')).not.toBe(addressKey('2001:db8:1:2::1'))
    expect(['::1', '::', 'fe80::1'].map(addressKey)).toEqual(['0:0:0:0::/64', '0:0:0:0::/64', 'fe80:0:0:0::/64'])
  })

  test('is the IPv4 address of an IPv4-mapped one (contract 4.15)', () => {
    for (const address of ['192.0.2.1', '::ffff:192.0.2.1', '::FFFF:c000:201', '0:0:0:0:0:ffff:192.0.2.1'])
      expect([address, addressKey(address)]).toEqual([address, '192.0.2.1'])
  })

  test('returns text that is not an address unchanged', () => {
    for (const text of ['', 'a user', 'x:y', ':', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7::8'])
      expect([text, addressKey(text)]).toEqual([text, text])
  })
})

test('free requests are counted for the whole /64 of an IPv6 address (contract 4.15)', async () => {
  const { gateway } = kit()
  const ask = async (ip: string) => (await gateway.fetch(new Request(`${ORIGIN}/api/v1/images/models`), { ip })).status
  const requests = await Promise.all(Array.from({ length: 101 }, (_, at) => ask(`2001:db8:1:2::${at.toString(16)}`)))
  expect(requests.filter((status) => status === 200).length).toBe(100)
  expect(await ask('2001:db8:1:3::1')).toBe(200)
})
