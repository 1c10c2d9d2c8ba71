import { describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { arkAssets, type ArkAssetsConfig } from '../../../../adapters/providers/bytedance/assets.ts'
import { signedHeaders } from '../../../../adapters/providers/bytedance/signature.ts'
import type { PortraitVendor } from '../../../../core/mod.ts'
import { START, testClock, testLog } from '../../../kit.ts'
import { calm, outcome, errorText, standIn } from '../lib/provider_kit.ts'

const KEYS = {
  accessKey: 'AKTESTtesttest',
  secretKey: 'c2VjcmV0LXNlY3JldC1zZWNyZXQ=',
  region: 'ap-southeast-1',
  service: 'ark',
}
const ADA = { name: 'Ada', image: 'https://pictures.example/ada.png' }

// ── the signature, as the vendor checks it ──────────────────────────────────────────────────────────────────────────

/** The published example of the vendor, computed here by other means. */
function expected(request: { url: URL; body: string; headers: Headers }): string {
  const { url, body, headers } = request
  const sha = (text: string) => createHash('sha256').update(text).digest('hex')
  const mac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()
  const date = headers.get('x-date') ?? ''
  const [day] = date.split('T') as [string]
  const signed = ['content-type', 'host', 'x-content-sha256', 'x-date']
  const lines = signed.map((name) => `${name}:${name === 'host' ? url.host : headers.get(name)}`)
  const query = [...url.searchParams]
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .sort()
    .join('&')
  const canonical = `POST\n${url.pathname}\n${query}\n${lines.join('\n')}\n\n${signed.join(';')}\n${sha(body)}`
  const scope = `${day}/${KEYS.region}/${KEYS.service}/request`
  const key = mac(mac(mac(mac(KEYS.secretKey, day), KEYS.region), KEYS.service), 'request')
  const signature = mac(key, `HMAC-SHA256\n${date}\n${scope}\n${sha(canonical)}`).toString('hex')
  return `HMAC-SHA256 Credential=${KEYS.accessKey}/${scope}, SignedHeaders=${signed.join(';')}, Signature=${signature}`
}

describe('a signed call', () => {
  test('is signed as the vendor checks it, whatever its query and body say', () => {
    for (const [search, body] of [
      ['Action=CreateAsset&Version=2024-01-01', '{}'],
      ['b=2&a=1', '{"Name":"Zoë \u{1F98A}"}'],
      ['x=a b~&y=%2F', ''],
    ] as const) {
      const url = `https://open.example:8443/?${search}`
      const headers = new Headers(signedHeaders({ url, body }, KEYS, START))
      expect(headers.get('x-date')).toBe('20261120T000000Z')
      expect([search, headers.get('authorization')]).toEqual([search, expected({ url: new URL(url), body, headers })])
    }
  })

  test('changes with its keys, its time, its body and its action', () => {
    const of = (more: { url?: string; body?: string; keys?: object; now?: number }) =>
      signedHeaders(
        { url: more.url ?? 'https://open.example/?Action=A', body: more.body ?? '{}' },
        { ...KEYS, ...more.keys },
        more.now ?? START,
      ).authorization
    const all = [
      of({}),
      of({ url: 'https://open.example/?Action=B' }),
      of({ url: 'https://other.example/?Action=A' }),
      of({ body: '{"a":1}' }),
      of({ keys: { secretKey: 'other' } }),
      of({ keys: { region: 'cn-beijing' } }),
      of({ now: START + 1000 }),
    ]
    expect(new Set(all).size).toBe(all.length)
    expect(all.join()).not.toContain(KEYS.secretKey)
  })
})

// ── the vendor ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Reply = { readonly result?: unknown; readonly code?: string; readonly message?: string; readonly status?: number }
type Script = Record<string, (body: any, nth: number) => Reply>

/** A control plane on loopback that refuses what is not signed, and answers each action as a test says. */
function plane(script: Script, more: Partial<ArkAssetsConfig> = {}) {
  const actions: { action: string; body: any }[] = []
  const server = standIn(async ({ json, headers }, request) => {
    const url = new URL(request.url)
    const action = url.searchParams.get('Action') ?? ''
    actions.push({ action, body: json })
    const isSigned =
      headers.get('authorization') === expected({ url, body: JSON.stringify(json), headers }) &&
      url.searchParams.get('Version') === '2024-01-01'
    const nth = actions.filter((each) => each.action === action).length
    const {
      result,
      code,
      message = '',
      status = code ? 400 : 200,
    }: Reply = isSigned
      ? (script[action]?.(json, nth) ?? { code: 'InvalidAction' })
      : { code: 'SignatureDoesNotMatch', status: 403 }
    return Response.json(
      {
        ResponseMetadata: { RequestId: 'r', Action: action, ...(code && { Error: { Code: code, Message: message } }) },
        ...(result !== undefined && { Result: result }),
      },
      { status },
    )
  })
  const [clock, log] = [testClock(), testLog()]
  let asking = 0
  const fetch: ArkAssetsConfig['fetch'] = async (url, init) => {
    asking++
    try {
      const reply = await globalThis.fetch(url, init)
      return new Response(await reply.text(), { status: reply.status })
    } finally {
      asking--
    }
  }
  const vendor = arkAssets({
    accessKey: KEYS.accessKey,
    secretKey: KEYS.secretKey,
    baseUrl: server.url,
    maker: 'ByteDance',
    timeoutMs: 3_600_000,
    clock,
    log,
    fetch,
    ...more,
  })
  return { vendor, clock, log, actions, isAsking: () => asking > 0 }
}

const GOOD: Script = {
  CreateAssetGroup: () => ({ result: { Id: 'group-1' } }),
  CreateAsset: () => ({ result: { Id: 'asset-1' } }),
  GetAsset: () => ({ result: { Id: 'asset-1', Status: 'Active' } }),
  CreateVisualValidateSession: () => ({ result: { BytedToken: 'bt-1', H5Link: 'https://check.example/bt-1' } }),
  GetVisualValidateResult: () => ({ result: { GroupId: 'group-9' } }),
}

/** Time passes between looks, and not while a question is on the wire. */
async function polls(
  { clock, isAsking }: Pick<ReturnType<typeof plane>, 'clock' | 'isAsking'>,
  isOver: () => boolean,
): Promise<void> {
  for (let polls = 0; !isOver() && polls < 500;) {
    await clock.settle()
    if (clock.waiting === 0 || isAsking()) continue
    polls += 1
    await clock.advance(3_000)
  }
}

describe('an invented character', () => {
  test('gets a group and an asset in it, and is looked at until it is active', async () => {
    const { vendor, clock, actions, isAsking } = plane(
      { ...GOOD, GetAsset: (_, nth) => ({ result: { Status: nth < 3 ? 'Processing' : 'Active' } }) },
      { project: 'films' },
    )
    let ended: unknown
    void vendor.enroll(ADA, calm()).then((found) => (ended = found))
    await polls({ clock, isAsking }, () => ended !== undefined)
    expect(ended).toEqual({ kind: 'enrolled', assetId: 'asset-1' })
    expect(actions.slice(0, 3)).toEqual([
      {
        action: 'CreateAssetGroup',
        body: { Name: 'Ada', Description: 'Ada', GroupType: 'AIGC', ProjectName: 'films' },
      },
      {
        action: 'CreateAsset',
        body: { GroupId: 'group-1', URL: ADA.image, Name: 'Ada', AssetType: 'Image', ProjectName: 'films' },
      },
      { action: 'GetAsset', body: { Id: 'asset-1', ProjectName: 'films' } },
    ])
    expect(actions).toHaveLength(5)
  })

  test('whose picture failed is refused with a reason in our words', async () => {
    for (const [error, reason] of [
      [{}, 'The vendor does not take this picture.'],
      [
        { Error: { Code: 'ImageRiskControl', Message: 'their words' } },
        'The safety system of the vendor refused this picture.',
      ],
    ] as const) {
      const { vendor } = plane({ ...GOOD, GetAsset: () => ({ result: { Status: 'Failed', ...error } }) })
      expect(await vendor.enroll(ADA, calm())).toEqual({ kind: 'rejected', reason })
    }
  })

  test('that never becomes active times out', async () => {
    const { vendor, clock, log, isAsking } = plane({ ...GOOD, GetAsset: () => ({ result: { Status: 'Processing' } }) })
    let ended: string | undefined
    void outcome(vendor.enroll(ADA, calm()), log).then((found) => (ended = found))
    await polls({ clock, isAsking }, () => ended !== undefined)
    expect(ended).toBe('UPSTREAM_TIMEOUT')
  })

  test('is left when its signal aborts', async () => {
    const { vendor, clock, actions } = plane({ ...GOOD, GetAsset: () => ({ result: { Status: 'Processing' } }) })
    const cut = new AbortController()
    const enrolling = vendor.enroll(ADA, { signal: cut.signal }).catch((error: Error) => error)
    for (let turn = 0; clock.waiting < 1 || actions.length < 3; turn++) await clock.settle()
    cut.abort(new Error('enough'))
    expect(((await enrolling) as Error).message).toBe('enough')
  })
})

describe('a real person', () => {
  test('is sent to the vendor’s page, with a callback where there is one', async () => {
    const { vendor, actions } = plane(GOOD, { callbackUrl: 'https://shop.example/done' })
    expect(await vendor.session('Ada', calm())).toEqual({
      token: 'bt-1',
      link: 'https://check.example/bt-1',
      expiresInSeconds: 120,
    })
    expect(actions[0]?.body).toEqual({ CallbackURL: 'https://shop.example/done' })
  })

  test('has passed when the result names a group, and not while it is absent, empty or not found', async () => {
    const states = async (result: Reply) =>
      await plane({ ...GOOD, GetVisualValidateResult: () => result }).vendor.status('bt-1', calm())
    expect(await states({ result: { GroupId: 'group-9' } })).toEqual({ kind: 'active', groupId: 'group-9' })
    for (const input of [
      { result: {} },
      { result: { GroupId: '' } },
      { result: null },
      { code: 'NotFound.Result', status: 404 },
      { code: 'ResourceNotFound', status: 200 },
      { status: 404 },
    ] as Reply[]) {
      expect([input, await states(input)] as unknown[]).toEqual([input, { kind: 'pending' }])
    }
  })

  test('has a face added to the group, and another face is rejected', async () => {
    const { vendor, actions } = plane(GOOD)
    expect(await vendor.face('group-9', ADA, calm())).toEqual({ kind: 'enrolled', assetId: 'asset-1' })
    expect(actions.map(({ action, body }) => [action, body.GroupId])).toEqual([
      ['CreateAsset', 'group-9'],
      ['GetAsset', undefined],
    ])
    const reason = 'The picture does not show the face of the person who passed the check.'
    for (const other of [
      { CreateAsset: () => ({ code: 'FaceNotMatch' }) },
      { GetAsset: () => ({ result: { Status: 'Failed', Error: { Code: 'FaceSimilarityTooLow' } } }) },
    ]) {
      expect(await plane({ ...GOOD, ...other }).vendor.face('group-9', ADA, calm())).toEqual({
        kind: 'rejected',
        reason,
      })
    }
  })
})

test('an answer in another shape says which action it was', async () => {
  const { vendor, log } = plane({ ...GOOD, CreateAssetGroup: () => ({ result: { Name: 'Ada' } }) })
  expect(await errorText(vendor.enroll(ADA, calm()), log)).toContain(
    'ark-assets answered CreateAssetGroup in another shape',
  )
})

describe('a refusal', () => {
  const ways: Record<string, (vendor: PortraitVendor) => Promise<unknown>> = {
    enroll: (vendor) => vendor.enroll(ADA, calm()),
    session: (vendor) => vendor.session('Ada', calm()),
    status: (vendor) => vendor.status('bt-1', calm()),
  }
  test.each([
    ['enroll', 'CreateAssetGroup', { code: 'AccessDenied', status: 403 }, 'operator'],
    ['enroll', 'CreateAssetGroup', { code: 'InvalidParameter.Name' }, 'operator'],
    ['enroll', 'CreateAssetGroup', { code: 'QuotaExceeded.AssetGroup', status: 429 }, 'operator'],
    ['enroll', 'CreateAsset', { code: 'InvalidParameter.URL' }, 'INVALID_IMAGE'],
    [
      'enroll',
      'CreateAsset',
      { code: 'InvalidParameter', message: 'the image could not be downloaded' },
      'INVALID_IMAGE',
    ],
    ['enroll', 'CreateAsset', { code: 'InputImageSensitiveContentDetected' }, 'CONTENT_POLICY'],
    ['enroll', 'CreateAsset', { code: 'Throttling.User', status: 429 }, 'RATE_LIMITED 30'],
    ['enroll', 'CreateAsset', { code: 'InternalError', status: 500 }, 'failure'],
    ['enroll', 'CreateAsset', { result: {} }, 'failure'],
    ['enroll', 'CreateAssetGroup', { result: null }, 'failure'],
    ['enroll', 'GetAsset', { code: 'InternalError', status: 500 }, 'failure'],
    ['session', 'CreateVisualValidateSession', { code: 'FlowLimitExceeded', status: 429 }, 'RATE_LIMITED 30'],
    [
      'session',
      'CreateVisualValidateSession',
      { result: { BytedToken: 'bt', H5Link: 'javascript:alert(1)' } },
      'failure',
    ],
    ['status', 'GetVisualValidateResult', { code: 'AccessDenied', status: 200 }, 'operator'],
  ] as const)('%s, %s with %j, reads as %s', async (way, action, answer, reads) => {
    const { vendor, log } = plane({ ...GOOD, [action]: () => answer as Reply })
    expect(await outcome((ways[way] as (vendor: PortraitVendor) => Promise<unknown>)(vendor), log)).toBe(reads)
  })

  test('of the signature is an operator error, and quotes neither key nor text', async () => {
    const { vendor, log } = plane({}, { secretKey: 'another-secret-key-of-test' })
    const words = await errorText(vendor.enroll(ADA, calm()), log)
    expect(words).toContain('SignatureDoesNotMatch')
    for (const secret of [KEYS.accessKey, 'another-secret-key-of-test']) expect(words).not.toContain(secret)
    expect(log.lines.some(({ level }) => level === 'alert')).toBe(true)
  })
})
