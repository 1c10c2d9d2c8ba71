import { describe, expect, test } from 'bun:test'
import { demoCharacters } from '../../../../server/devnet/demo/videos.ts'
import { scriptedVideo } from '../../../fakes/videos.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { FACE_GROUP } from '../../../../core/products/video/owned_characters.ts'
import { idFrom } from '../../../../core/lib/ids.ts'
import { decodeDataUri } from '../../../../core/lib/base64.ts'
import { ApiError, NoMedia, type PortraitVendor, type Vendors } from '../../../../core/mod.ts'
import { type Answer, countingRandom, kit, type Kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

const PORTRAIT = '/api/v1/portrait/enroll'
const FACE = '/api/v1/realface/enroll'
const INIT = '/api/v1/realface/init'
const VIDEOS = '/api/v1/videos/generations'
const ADA = { name: 'Ada', image_url: 'https://pictures.example/ada.png' }
const HOUR = 3_600_000

type Studio = Kit & {
  readonly requests: string[]
  get(path: string, from?: string): Promise<Answer>
  post(path: string, body: unknown, from?: string): Promise<Answer>
  /** A group whose person has passed the check. */
  passed(): Promise<string>
}

/** A gateway whose characters are enrolled by a vendor that does as a test says, and writes down what it is asked. */
function studio(script: Partial<PortraitVendor> = {}, options: KitOptions = {}): Studio {
  const requests: string[] = []
  let sessions = 0
  const vendor: PortraitVendor = {
    enroll: async ({ name, image }) => (
      requests.push(`enroll ${name} ${image}`),
      { kind: 'enrolled', assetId: 'vendor-asset-1' }
    ),
    session: async (name) => (
      requests.push(`session ${name}`),
      { token: `token-${++sessions}`, link: `https://check.example/${sessions}`, expiresInSeconds: 120 }
    ),
    status: async (token) => (requests.push(`status ${token}`), { kind: 'active', groupId: `group of ${token}` }),
    face: async (group, { image }) => (
      requests.push(`face ${group} ${image}`),
      { kind: 'enrolled', assetId: 'vendor-face-1' }
    ),
    ...script,
  }
  const { ports: { vendors, ...ports } = {}, ...more } = options
  const subject = kit({
    video: scriptedVideo(),
    ports: { ...ports, vendors: { characters: vendor, ...vendors } },
    ...more,
  })
  const get: Studio['get'] = async (path, ip = '192.0.2.1') =>
    await read(await subject.gateway.fetch(new Request(ORIGIN + path), { ip }))
  const post: Studio['post'] = async (path, body, ip = '192.0.2.1') =>
    await read(
      await subject.gateway.fetch(
        new Request(ORIGIN + path, {
          method: 'POST',
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        }),
        { ip },
      ),
    )
  return {
    ...subject,
    requests,
    get,
    post,
    passed: async () => (await post(INIT, { name: 'Ada' })).body.group_id as string,
  }
}

const picture = async () => decodeDataUri(PIXEL) as { bytes: Uint8Array; type: string }
const clipWith = (asset: string) => ({ model: 'vendor-e/video-2.0', prompt: 'she runs', real_face_asset_id: asset })
const listOf = (wallet: string, field = 'portraits') => `/api/v1/wallet/${wallet}/${field}`

describe('an invented character', () => {
  test('is enrolled for 0.011 USD, with a hosted copy of its picture and a receipt in the body (contract 13.1)', async () => {
    const { buyer, chain, requests, gateway } = studio({}, { ports: { vendors: { media: picture } } })
    const alice = buyer()
    const { status, body, headers } = await alice.buy(ADA, { path: PORTRAIT })
    expect((await gateway.fetch(new Request(body.image_url))).headers.get('content-type')).toBe('image/png')
    expect([status, chain.transfers.map(({ value }) => value), requests]).toEqual([
      200,
      [11_000n],
      [`enroll Ada ${ADA.image_url}`],
    ])
    expect(body).toEqual({
      object: 'virtual_portrait',
      asset_id: expect.stringMatching(/^ta_[0-9a-f]{32}$/),
      group_id: expect.stringMatching(/^vp_[0-9a-f]{32}$/),
      name: 'Ada',
      image_url: expect.stringMatching(
        /^http:\/\/farebox\.test\/api\/media\/portraits\/2026-11-20\/[0-9a-f]{32}-0\.png$/,
      ),
      source_image_url: ADA.image_url,
      mirrored: true,
      created_at: '2026-11-20T00:00:00.000Z',
      usage: {
        compatible_models: ['vendor-e/video-2.0-mini', 'vendor-e/video-2.0-fast', 'vendor-e/video-2.0'],
        how_to_use: expect.stringContaining(body.asset_id),
      },
      price: { amount: '0.011000', currency: 'USD' },
      settlement: { success: true, tx_hash: chain.transfers[0]?.transaction ?? '', network: 'base-sepolia' },
    })
    expect(headers.get('x-payment-receipt')).toBe(body.settlement.tx_hash)
  })

  test('whose picture cannot be mirrored is enrolled all the same', async () => {
    const { buyer, get } = studio()
    const alice = buyer()
    const { status, body } = await alice.buy(ADA, { path: PORTRAIT })
    expect([status, body.image_url, body.source_image_url, body.mirrored]).toEqual([
      200,
      ADA.image_url,
      ADA.image_url,
      false,
    ])
    expect((await get(listOf(alice.wallet))).body.portraits[0].imageUrl).toBe(ADA.image_url)
  })

  test('whose picture is another kind of file is enrolled, but the file is not hosted; it is fetched without trust', async () => {
    const requests: boolean[] = []
    const given = [
      { bytes: new Uint8Array(1), type: 'video/mp4' },
      { bytes: new Uint8Array(1), type: 'text/html' },
    ]
    const media: Vendors['media'] = async (_url, { foreign = false }) => (
      requests.push(foreign),
      given.shift() ?? Promise.reject(new NoMedia('gone'))
    )
    const stream = () => Promise.reject(new Error('not to be streamed'))
    const alice = studio({}, { ports: { vendors: { media, stream } } }).buyer()
    for (let n = 0; n < 3; n++) {
      const { status, body } = await alice.buy(ADA, { path: PORTRAIT })
      expect([status, body.image_url, body.mirrored]).toEqual([200, ADA.image_url, false])
    }
    expect(requests).toEqual([true, true, true])
  })

  test('is drawn in videos of the wallet that enrolled it, and of no other (contract 12.22, 13.8, 13.9)', async () => {
    const { buyer, video, chain } = studio()
    const alice = buyer()
    const { body } = await alice.buy(ADA, { path: PORTRAIT })
    const clip = clipWith(body.asset_id)
    const stolen = await buyer('bob').buy(clip, { path: VIDEOS })
    expect([stolen.status, stolen.body.details[0].path, video.jobs.length]).toEqual([400, 'real_face_asset_id', 0])
    expect((await alice.buy(clip, { path: VIDEOS })).status).toBe(202)
    expect([video.jobs.map(({ asset }) => asset), chain.transfers.length]).toEqual([['vendor-asset-1'], 1])
  })

  test('has an id from which the call that paid for it cannot be found, and another each time', async () => {
    const { buyer, chain } = studio()
    const alice = buyer()
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      chain.simulate('refused')
      const { body } = await alice.buy(ADA, { path: PORTRAIT })
      const job = body.job_id as string
      const collected = await alice.poll(body.poll_url, alice.sign(await alice.ask(ADA, { path: PORTRAIT })))
      ids.push(collected.body.asset_id)
      expect(collected.body.asset_id).not.toContain(job.slice(4))
    }
    expect(new Set(ids).size).toBe(3)
  })

  test.each([
    [{ name: '', image_url: ADA.image_url }, 'name'],
    [{ name: '   ', image_url: ADA.image_url }, 'name'],
    [{ name: 'x'.repeat(65), image_url: ADA.image_url }, 'name'],
    [{ name: 'Ada' }, 'image_url'],
    [{ name: 'Ada', image_url: PIXEL }, 'image_url'],
    [{ name: 'Ada', image_url: 'ftp://pictures.example/ada.png' }, 'image_url'],
    [{ name: 'Ada', image_url: 'https://' }, 'image_url'],
  ])('%j is 400 before the quote (contract 13.1)', async (body, path) => {
    const { buyer } = studio()
    for (const name of ['x', 'x'.repeat(64)])
      expect((await buyer().ask({ ...ADA, name }, { path: PORTRAIT })).status).toBe(402)
    const answer = await buyer().ask(body, { path: PORTRAIT })
    expect([answer.status, answer.body.details[0].path]).toEqual([400, path])
  })

  test('that its vendor refuses is reported, uncharged, and not stored (contract 13.2)', async () => {
    const refusals: readonly (readonly [PortraitVendor['enroll'], number, string])[] = [
      [async () => ({ kind: 'rejected', reason: 'Too dark.' }), 400, 'Invalid input image'],
      [() => Promise.reject(new ApiError('CONTENT_POLICY')), 400, 'Content policy violation'],
      [() => Promise.reject(new Error('secret')), 502, 'Enrollment failed'],
    ]
    for (const [enroll, status, error] of refusals) {
      const { buyer, chain, get } = studio({ enroll })
      const alice = buyer()
      const answer = await alice.buy(ADA, { path: PORTRAIT })
      expect([answer.status, answer.body.error, chain.transfers]).toEqual([status, error, []])
      expect(JSON.stringify(answer.body)).not.toContain('secret')
      expect((await get(listOf(alice.wallet))).body).toMatchObject({ portraits: [], count: 0 })
    }
  })

  test('that cannot be stored is not charged (contract 13.2)', async () => {
    const { buyer, chain } = studio(
      {},
      {
        wrap: (ports) => ({
          ...ports,
          storage: {
            ...ports.storage,
            putRecord: (record, now) =>
              record.kind === 'character'
                ? Promise.reject(new Error('disk full'))
                : ports.storage.putRecord(record, now),
          },
        }),
      },
    )
    expect([(await buyer().buy(ADA, { path: PORTRAIT })).status, chain.transfers]).toEqual([500, []])
  })
})

describe('the check of a person', () => {
  test('begins with a link under two names, and is free (contract 13.3)', async () => {
    const { post, chain, requests } = studio()
    const { status, body, headers } = await post(INIT, { name: 'Ada' })
    expect([status, headers.get('cache-control'), chain.transfers, requests]).toEqual([
      200,
      'no-store',
      [],
      ['session Ada'],
    ])
    expect(body).toEqual({
      object: 'realface.init',
      group_id: expect.stringMatching(/^rf_[0-9a-f]{32}$/),
      h5_link: 'https://check.example/1',
      h5Link: 'https://check.example/1',
      status: 'pending_validation',
      expires_in_seconds: 120,
      next_steps: expect.any(Array),
    })
  })

  test('says when it is passed, and then asks its vendor no more (contract 13.4)', async () => {
    let isPassed = false
    const polls: string[] = []
    const { post, get } = studio({
      status: async (token) => (polls.push(token), isPassed ? { kind: 'active', groupId: 'g' } : { kind: 'pending' }),
    })
    const { group_id } = (await post(INIT, { name: 'Ada' })).body
    const status = async () => (await get(`/api/v1/realface/status?groupId=${group_id}`)).body
    expect(await status()).toEqual({
      object: 'realface.status',
      group_id,
      status: 'pending_validation',
      asset_count: 0,
      ready_to_finalize: false,
    })
    isPassed = true
    expect(await status()).toMatchObject({ status: 'active', ready_to_finalize: true })
    expect([(await status()).status, polls]).toEqual(['active', ['token-1', 'token-1']])
  })

  test('gets a new link on request, and is passed by the old one as well', async () => {
    const { post, get } = studio({
      status: async (token) => (token === 'token-1' ? { kind: 'active', groupId: 'g' } : { kind: 'pending' }),
    })
    let passes = false
    const slow = studio({
      status: async (token) => (passes && token === 'token-1' ? { kind: 'active', groupId: 'g' } : { kind: 'pending' }),
    })
    const { group_id } = (await slow.post(INIT, { name: 'Ada' })).body
    const { body } = await slow.post(INIT, { name: 'Ada', groupId: group_id })
    expect([body.group_id, body.h5_link, body.refreshed, body.status]).toEqual([
      group_id,
      'https://check.example/2',
      true,
      'pending_validation',
    ])
    passes = true
    expect((await slow.get(`/api/v1/realface/status?groupId=${group_id}`)).body.status).toBe('active')
    // One who has passed needs no link.
    const done = (await post(INIT, { name: 'Ada' })).body.group_id
    const again = await post(INIT, { name: 'Ada', groupId: done })
    expect([
      again.body.status,
      again.body.expires_in_seconds,
      (await get(`/api/v1/realface/status?groupId=${done}`)).body.ready_to_finalize,
    ]).toEqual(['active', 0, true])
  })

  test('that was not begun is 404, and a malformed id 400 (contract 13.4)', async () => {
    const { post, get } = studio()
    const nobody = `rf_${'0'.repeat(32)}`
    expect([
      (await get(`/api/v1/realface/status?groupId=${nobody}`)).status,
      (await post(INIT, { name: 'Ada', groupId: nobody })).status,
    ]).toEqual([404, 404])
    for (const query of ['', '?groupId=', '?groupId=rf_1', '?group_id=x'])
      expect([query, (await get(`/api/v1/realface/status${query}`)).status]).toEqual([query, 400])
    expect((await post(INIT, { name: 'Ada', groupId: 'x' })).status).toBe(400)
    for (const body of [{}, { name: ' ' }, { name: 'x'.repeat(65) }, []])
      expect([body, (await post(INIT, body)).status]).toEqual([body, 400])
  })

  test('can be begun ten times an hour from one address (contract 13.3)', async () => {
    const { post, clock } = studio()
    for (let n = 0; n < 10; n++) expect((await post(INIT, { name: 'Ada' })).status).toBe(200)
    await clock.advance(600_000)
    const { status, body, headers } = await post(INIT, { name: 'Ada' })
    expect([status, body.error, body.retryAfterSeconds, headers.get('retry-after')]).toEqual([
      429,
      'Rate limit exceeded',
      3000,
      '3000',
    ])
    expect((await post(INIT, { name: 'Ada' }, '192.0.2.2')).status).toBe(200)
  })

  test('is 502 if its vendor fails, and 504 if it does not answer', async () => {
    const { post } = studio({ session: () => Promise.reject(new Error('secret')) })
    const away = await post(INIT, { name: 'Ada' })
    expect([away.status, JSON.stringify(away.body).includes('secret')]).toEqual([502, false])
    const { post: ask, clock } = studio({
      session: (_name, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const asking = ask(INIT, { name: 'Ada' })
    await clock.advance(10_000)
    expect((await asking).status).toBe(504)
  })

  test('is 503 where no vendor is configured', async () => {
    const { gateway } = kit()
    const got = async (path: string, init: RequestInit = {}) =>
      (await gateway.fetch(new Request(ORIGIN + path, init))).status
    expect(await got(INIT, { method: 'POST', body: '{"name":"Ada"}' })).toBe(503)
    expect([await got('/api/v1/realface/status?groupId=rf_1'), await got('/api/v1/realface/page')]).toEqual([503, 404])
  })
})

describe('the face of a person', () => {
  test('who has passed the check is enrolled, and counted (contract 13.5, 13.6)', async () => {
    const { buyer, passed, get, requests, chain } = studio()
    const alice = buyer()
    const group_id = await passed()
    const { status, body } = await alice.buy({ ...ADA, group_id }, { path: FACE })
    expect([status, body.object, body.group_id, body.byteplus_asset_id]).toEqual([
      200,
      'realface',
      group_id,
      'vendor-face-1',
    ])
    expect(chain.transfers.map(({ value }) => value)).toEqual([11_000n])
    expect([body.asset_id, body.settlement]).toEqual([
      expect.stringMatching(/^ta_[0-9a-f]{32}$/),
      { success: true, tx_hash: chain.transfers[0]?.transaction ?? '', network: 'base-sepolia' },
    ])
    expect(requests).toContain(`face group of token-1 ${ADA.image_url}`)
    expect((await alice.buy({ ...ADA, group_id }, { path: FACE })).status).toBe(200)
    expect((await get(`/api/v1/realface/status?groupId=${group_id}`)).body).toMatchObject({
      status: 'active',
      asset_count: 2,
    })
    expect((await get(listOf(alice.wallet, 'realfaces'))).body).toMatchObject({
      count: 2,
      realfaces: [{ groupId: group_id }, { groupId: group_id }],
    })
    expect((await get(listOf(alice.wallet))).body.count).toBe(0)
  })

  test('can be added for as long as its wallet likes, though the check is forgotten', async () => {
    const { buyer, passed, clock, ports } = studio()
    const group_id = await passed()
    await buyer().buy({ ...ADA, group_id }, { path: FACE })
    await clock.advance(60 * 24 * HOUR)
    await ports.storage.prune(clock.now())
    expect(await FACE_GROUP.get(ports.storage, group_id, clock.now())).toBeUndefined()
    expect((await buyer().buy({ ...ADA, group_id }, { path: FACE })).status).toBe(200)
  })

  test('is added by the wallet that enrolled the first one only, also when two are first at once', async () => {
    const { buyer, passed, chain, requests } = studio()
    const group_id = await passed()
    const [alice, bob] = [buyer(), buyer('bob')]
    const answers = await Promise.all([alice, bob].map((each) => each.buy({ ...ADA, group_id }, { path: FACE })))
    expect([answers.map(({ status }) => status).sort(), chain.transfers.length]).toEqual([[200, 403], 1])
    const faces = requests.filter((each) => each.startsWith('face')).length
    const loser = answers[0]?.status === 403 ? alice : bob
    expect([
      (await loser.buy({ ...ADA, group_id }, { path: FACE })).status,
      requests.filter((each) => each.startsWith('face')).length,
    ]).toEqual([403, faces])
  })

  test('is 425 before the check is passed, 422 when it is another one, 404 without a check, 502 when the vendor is away; none is charged (contract 13.2, 13.5)', async () => {
    const cases: readonly (readonly [Partial<PortraitVendor>, number, string])[] = [
      [{ status: async () => ({ kind: 'pending' }) }, 425, 'FACE_NOT_ACTIVE'],
      [{ face: async () => ({ kind: 'not_active' }) }, 425, 'FACE_NOT_ACTIVE'],
      [{ face: async () => ({ kind: 'rejected', reason: 'Another face.' }) }, 422, 'FACE_REJECTED'],
      [{ face: () => Promise.reject(new Error('secret')) }, 502, 'ENROLLMENT_FAILED'],
      [{ status: () => Promise.reject(new Error('secret')) }, 502, 'ENROLLMENT_FAILED'],
    ]
    for (const [script, status, code] of cases) {
      const { buyer, passed, chain, get } = studio(script)
      const alice = buyer()
      const answer = await alice.buy({ ...ADA, group_id: await passed() }, { path: FACE })
      expect([answer.status, answer.body.code, chain.transfers]).toEqual([status, code, []])
      if (status === 425)
        expect([answer.body.group_status, typeof answer.body.hint]).toEqual(['pending_validation', 'string'])
      expect((await get(listOf(alice.wallet, 'realfaces'))).body.count).toBe(0)
    }
    const { buyer, chain } = studio()
    expect((await buyer().buy({ ...ADA, group_id: `rf_${'0'.repeat(32)}` }, { path: FACE })).status).toBe(404)
    expect((await buyer().ask({ ...ADA, group_id: 'legacy' }, { path: FACE })).status).toBe(400)
    expect(chain.transfers).toEqual([])
  })

  test('that was refused before the check is enrolled with the same signed request after it', async () => {
    let isPassed = false
    const { buyer, passed, chain } = studio({
      status: async () => (isPassed ? { kind: 'active', groupId: 'g' } : { kind: 'pending' }),
    })
    const alice = buyer()
    const order = { ...ADA, group_id: await passed() }
    const payment = alice.sign(await alice.ask(order, { path: FACE }))
    expect((await alice.buy(order, { path: FACE, payment })).status).toBe(425)
    isPassed = true
    expect([(await alice.buy(order, { path: FACE, payment })).status, chain.transfers.length]).toEqual([200, 1])
  })
})

describe('the characters of a wallet', () => {
  test('are listed newest first, with what paid for them, to anybody, whatever the case of the address (contract 13.6)', async () => {
    const { buyer, get, clock, chain } = studio({}, { ports: { vendors: { media: picture } } })
    const alice = buyer()
    const first = await alice.buy(ADA, { path: PORTRAIT })
    await clock.advance(1_000)
    const second = await alice.buy({ ...ADA, name: 'Grace' }, { path: PORTRAIT })
    await buyer('bob').buy(ADA, { path: PORTRAIT })
    const { status, body, headers } = await get(listOf(alice.wallet.toUpperCase().replace('0X', '0x')))
    expect([status, headers.get('cache-control')]).toEqual([200, 'private, max-age=30'])
    const item = ({ body: { asset_id, group_id, name, image_url } }: Answer, nth: number) => ({
      assetId: asset_id,
      groupId: group_id,
      name,
      imageUrl: image_url,
      createdAt: new Date(START + 1_000 * nth).toISOString(),
      enrollmentTxHash: chain.transfers[nth]?.transaction,
    })
    expect(body).toEqual({ wallet: alice.wallet, portraits: [item(second, 1), item(first, 0)] as never, count: 2 })
  })

  test('whose settlement was refused are withheld until they are collected: neither listed nor drawn', async () => {
    const { buyer, get, chain, video } = studio()
    const alice = buyer()
    const payment = alice.sign(await alice.ask(ADA, { path: PORTRAIT }))
    chain.simulate('refused')
    const { status, body } = await alice.buy(ADA, { path: PORTRAIT, payment })
    const draw = async () => (await alice.buy(clipWith(idFrom(body.job_id, 'ta_')), { path: VIDEOS })).status
    expect([status, (await get(listOf(alice.wallet))).body.count, await draw(), video.jobs.length]).toEqual([
      402, 0, 400, 0,
    ])
    await alice.poll(body.poll_url, payment)
    expect((await get(listOf(alice.wallet))).body.portraits[0].enrollmentTxHash).toBe(
      chain.transfers[0]?.transaction ?? '',
    )
    expect([await draw(), video.jobs.length]).toEqual([202, 1])
  })

  test('with an unknown settlement are served, listed and used, and marked', async () => {
    const { buyer, chain, get } = studio()
    const alice = buyer()
    chain.simulate('dropped')
    const { status, body, headers } = await alice.buy(ADA, { path: PORTRAIT })
    expect([status, headers.get('x-payment-settled'), body.settlement]).toEqual([
      200,
      'false',
      { success: false, tx_hash: '', network: 'base-sepolia' },
    ])
    expect((await get(listOf(alice.wallet))).body).toMatchObject({
      portraits: [{ assetId: body.asset_id, enrollmentTxHash: null }],
      count: 1,
    })
    expect((await alice.buy(clipWith(body.asset_id), { path: VIDEOS })).status).toBe(202)
  })

  test('are kept when their call has been emptied', async () => {
    const { buyer, get, clock, ports } = studio({}, { ports: { vendors: { media: picture } } })
    const alice = buyer()
    const { body } = await alice.buy(ADA, { path: PORTRAIT })
    await clock.advance(400 * 24 * HOUR)
    await ports.storage.prune(clock.now())
    expect((await get(listOf(alice.wallet))).body.portraits).toMatchObject([
      { assetId: body.asset_id, imageUrl: body.image_url, enrollmentTxHash: body.settlement.tx_hash },
    ])
  })

  test('are for an address: anything else is 400', async () => {
    const { get } = studio()
    for (const address of ['0x12', 'alice', `0x${'g'.repeat(40)}`])
      for (const field of ['portraits', 'realfaces']) expect((await get(listOf(address, field))).status).toBe(400)
  })

  test('share twenty requests an hour with the other lists of wallets (contract 13.7)', async () => {
    const { get, buyer } = studio()
    const { wallet } = buyer()
    for (let n = 0; n < 20; n++) expect((await get(listOf(wallet, n % 2 ? 'portraits' : 'realfaces'))).status).toBe(200)
    expect([(await get(listOf(wallet))).status, (await get(`/api/v1/wallet/${wallet}/reconciliation`)).status]).toEqual(
      [429, 429],
    )
  })
})

test('on devnet the whole of it works without anybody, and its page says that nobody is checked', async () => {
  const { post, get, buyer, gateway } = studio(
    {},
    { ports: { vendors: { characters: demoCharacters({ random: countingRandom() }) } } },
  )
  const { group_id, h5_link } = (await post(INIT, { name: 'Ada' })).body
  expect(h5_link).toBe(`${ORIGIN}/api/v1/realface/page`)
  const page = await gateway.fetch(new Request(h5_link))
  expect([page.status, page.headers.get('content-type'), await page.text()]).toEqual([
    200,
    'text/html; charset=utf-8',
    expect.stringContaining('No liveness check is done on devnet'),
  ])
  expect((await get(`/api/v1/realface/status?groupId=${group_id}`)).body.ready_to_finalize).toBe(true)
  expect((await buyer().buy({ ...ADA, group_id }, { path: FACE })).status).toBe(200)
})
