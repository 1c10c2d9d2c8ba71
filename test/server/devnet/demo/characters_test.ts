import { expect, test } from 'bun:test'
import { demoCharacters } from '../../../../server/devnet/demo/videos.ts'
import { countingRandom } from '../../../kit.ts'
import { calm } from '../../../adapters/providers/lib/provider_kit.ts'

const ADA = { name: 'Ada', image: 'https://pictures.example/ada.png' }

test('the same picture has the same asset id in any process, and another one another', async () => {
  const [one, two] = [demoCharacters({ random: countingRandom() }), demoCharacters({ random: countingRandom() })]
  const character = await one.enroll(ADA, calm())
  expect(character).toEqual({ kind: 'enrolled', assetId: expect.stringMatching(/^local-asset-[0-9a-f]{24}$/) })
  expect(await two.enroll({ ...ADA, name: 'Grace' }, calm())).toEqual(character)
  expect(await two.face('group', ADA, calm())).toEqual(character)
  expect(await two.enroll({ ...ADA, image: `${ADA.image}?2` }, calm())).not.toEqual(character)
})

test('each check has a token of its own, and is passed at once, also by another process', async () => {
  const random = countingRandom()
  const vendor = demoCharacters({ random })
  const [first, second] = [await vendor.session('Ada', calm()), await vendor.session('Ada', calm())]
  expect([first.token === second.token, first.link, first.expiresInSeconds]).toEqual([false, undefined, 120])
  const state = await vendor.status(first.token, calm())
  expect(state).toEqual({ kind: 'active', groupId: expect.stringMatching(/^local-group-[0-9a-f]{24}$/) })
  expect(await demoCharacters({ random }).status(first.token, calm())).toEqual(state)
})

test('the page says that nobody is checked, and loads nothing from anywhere', () => {
  const { page = '' } = demoCharacters({ random: countingRandom() })
  expect(page).toContain('No liveness check is done on devnet')
  expect(page).not.toMatch(/src=|href=|<script|url\(/)
})
