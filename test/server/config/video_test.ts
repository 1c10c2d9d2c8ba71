/** Who films, by file and by environment; switches and the keys of poll URLs. */
import { describe, expect, test } from 'bun:test'
import { videoRows } from '../../../core/mod.ts'
import { type Config, realVendors } from '../../../server/config/mod.ts'
import { good, mistakes } from './config_kit.ts'

const keys = { STUDIO_KEY: 's3cret-a', OTHER_KEY: 's3cret-b' }
const row = (id: string, ...lines: readonly string[]) => `[[videos]]\nid = "${id}"\n${lines.join('\n')}\n`
const servedBy = ({ videos: { rows, servings } }: Config) =>
  rows.flatMap(({ id, vendor }) => (servings.has(id) ? [`${vendor} by ${servings.get(id)?.protocol}`] : []))
const unique = (names: readonly string[]) => [...new Set(names)]

describe('vendors that film', () => {
  const vendor =
    '[vendors.vendor-e]\nprotocol = "seedream"\nvideo = "seedance"\nkey_env = "STUDIO_KEY"\nbase_url = "https://studio.example/v3"\ntimeout_seconds = 600\nvideo_timeout_seconds = 40\nvideo_parameters = { camera_fixed = true }\nvideo_overrides = { watermark = false }\n'
  const served = {
    protocol: 'seedance',
    baseUrl: 'https://studio.example/v3',
    key: 's3cret-a',
    timeoutMs: 40_000,
    parameters: { camera_fixed: true },
    overrides: { watermark: false },
  } as const
  const serving = (toml: string, id: string) => good(toml, keys).videos.servings.get(id)

  test('one table serves images and videos with one key and address; the rest of its settings speak of one of them', () => {
    const config = good(vendor, keys)
    expect(unique(servedBy(config))).toEqual(['vendor-e by seedance'])
    expect(config.videos.servings.get('vendor-e/video-2.0')).toEqual(served)
    expect([...config.videos.byVendor]).toEqual([['vendor-e', served]])
    expect(config.images.servings.get('vendor-e/image-pro')).toMatchObject({
      protocol: 'seedream',
      timeoutMs: 600_000,
    })
    expect(realVendors(config)).toEqual(['vendor-e'])
    expect(serving(`${vendor}video_base_url = "https://clips.example"`, 'vendor-e/video-2.0')).toEqual({
      ...served,
      baseUrl: 'https://clips.example',
    })
  })

  test('a job has twenty seconds to be taken, unless told, and its buyer does not wait for a minute', () => {
    expect(serving('[vendors.vendor-c]\nvideo = "xai-videos"\nkey_env = "STUDIO_KEY"', 'vendor-c/video-1')).toEqual({
      protocol: 'xai-videos',
      baseUrl: undefined,
      key: 's3cret-a',
      timeoutMs: 20_000,
    })
    expect(mistakes('[vendors.vendor-c]\nvideo = "xai-videos"\nvideo_timeout_seconds = 60')).toEqual([
      'vendors.vendor-c.video_timeout_seconds: must be a number from 1 to 55, got 60',
    ])
  })

  test('a row says what differs for it; a row of another protocol inherits neither address nor key', () => {
    const wins = (...lines: readonly string[]) =>
      serving(vendor + row('vendor-e/video-2.0', ...lines), 'vendor-e/video-2.0')
    expect(
      wins(
        'base_url = "http://proxy.lan"',
        'key_env = "OTHER_KEY"',
        'timeout_seconds = 5',
        'parameters = { seed = 1 }',
      ),
    ).toEqual({ ...served, baseUrl: 'http://proxy.lan', key: 's3cret-b', timeoutMs: 5_000, parameters: { seed: 1 } })
    expect(wins('hidden = true')).toEqual(served)
    expect(wins('protocol = "reseller-videos"', 'key_env = "OTHER_KEY"')).toEqual({
      protocol: 'reseller-videos',
      baseUrl: undefined,
      key: 's3cret-b',
      timeoutMs: 20_000,
    })
    expect(mistakes(vendor + row('vendor-e/video-2.0', 'protocol = "openai-videos"'), keys)).toEqual([
      'videos vendor-e/video-2.0.base_url: missing; the protocol openai-videos is served by many servers',
    ])
  })

  test('no key goes to a stranger: a maker is known for one protocol, and openai-videos is nobody’s any more', () => {
    const missing = (name: string, video: string) =>
      `vendors.${name}.video_base_url: missing; the protocol ${video} is served by many servers`
    for (const [name, video] of [
      ['vendor-c', 'seedance'],
      ['vendor-e', 'reseller-videos'],
      ['vendor-a', 'openai-videos'],
      ['vendor-f', 'openai-videos'],
      ['mine', 'openai-videos'],
    ] as const) {
      expect(mistakes(`[vendors.${name}]\nvideo = "${video}"\nkey_env = "OTHER_KEY"`, keys)).toEqual([
        missing(name, video),
      ])
      expect(
        mistakes(
          `[vendors.${name}]\nvideo = "${video}"\nkey_env = "OTHER_KEY"\nvideo_base_url = "https://clips.example"`,
          keys,
        ),
      ).toEqual([])
    }
    for (const [name, video] of [
      ['vendor-c', 'xai-videos'],
      ['vendor-e', 'seedance'],
      ['mine', 'reseller-videos'],
      ['vendor-c', 'demo'],
    ])
      expect(mistakes(`[vendors.${name}]\nvideo = "${video}"`)).toEqual([])
  })

  test('rows are changed, added, given rates, retired and redirected; a redirected row is served as its fallback is', () => {
    const rows =
      row(
        'vendor-e/video-2.0',
        'upstream = "seedance-next"',
        'aliases = ["next"]',
        'usual_resolution = "1080p"',
        'last_frame = false',
      ) +
      row('vendor-e/video-2.5', 'redirect = "vendor-e/video-2.0"') +
      row('vendor-e/video-1.5-pro', 'retired = true') +
      row(
        'vendor-c/video-1',
        'rates = { per_second_by_resolution = { "480p" = "0.04", "720p" = "0.06" }, per_generation = "0.002" }',
      ) +
      row(
        'house/clip',
        'vendor = "vendor-e"',
        'upstream = "clip-1"',
        'family = "e"',
        'rates = { per_second = "0.2" }',
        'seconds = { min = 2, max = 8, usual = 4 }',
        'resolutions = ["720p"]',
      )
    const { videos } = good(vendor + rows, keys)
    const find = (id: string) => videos.rows.find((each) => each.id === id)
    expect(find('vendor-e/video-2.0')).toMatchObject({
      upstream: 'seedance-next',
      aliases: ['next'],
      usualResolution: '1080p',
      lastFrame: false,
    })
    expect(find('vendor-e/video-2.5')).toMatchObject({ upstream: 'seedance-next', servedBy: 'vendor-e/video-2.0' })
    expect(videos.servings.get('vendor-e/video-2.5')).toEqual(served)
    expect(find('vendor-e/video-1.5-pro')).toMatchObject({ retired: true })
    expect(find('vendor-c/video-1')?.billing).toMatchObject({
      mode: 'per_second_by_tier',
      perGeneration: { num: 2n, den: 1000n },
    })
    expect(find('house/clip')).toMatchObject({
      maker: 'vendor-e',
      seconds: { min: 2, max: 8, usual: 4 },
      billing: { mode: 'per_second_with_margin' },
    })
    expect(videos.servings.get('house/clip')).toEqual(served)
  })

  test.each([
    [
      'a vendor that does nothing',
      '[vendors.x]\nkey_env = "STUDIO_KEY"',
      'vendors.x: set at least one of protocol (for images), chat and video',
    ],
    [
      'a word of video without it',
      '[vendors.x]\nprotocol = "sdapi"\nvideo_parameters = { a = 1 }',
      'vendors.x.video_parameters: has no effect without video',
    ],
    [
      'a word of images beside video alone',
      '[vendors.x]\nvideo = "seedance"\nparameters = { a = 1 }',
      'vendors.x.parameters: is for images, which need a protocol; for video it is video_parameters',
    ],
    [
      'an unknown protocol',
      '[vendors.x]\nvideo = "veo"',
      expect.stringMatching(
        /^vendors\.x\.video: must be one of .*seedance.*, demo, or a file such as .\/mine.ts, got "veo"$/,
      ),
    ],
    [
      'a variable that is not set',
      '[vendors.x]\nvideo = "seedance"\nkey_env = "NO_KEY"',
      'vendors.x.key_env: the environment variable NO_KEY is not set',
    ],
    [
      'two ways to bill',
      row('vendor-c/video-1', 'rates = { per_second = "1", per_million_tokens = "2" }'),
      'videos vendor-c/video-1.rates: needs one of per_second, per_second_by_resolution and per_million_tokens, got 2',
    ],
    [
      'no way to bill',
      row('vendor-c/video-1', 'rates = {}'),
      'videos vendor-c/video-1.rates: needs one of per_second, per_second_by_resolution and per_million_tokens, got 0',
    ],
    [
      'a fee that belongs elsewhere',
      row('vendor-f/video-1', 'rates = { per_second = "1", per_generation = "2" }'),
      'videos vendor-f/video-1.rates.per_generation: goes with per_second_by_resolution only',
    ],
    [
      'a resolution that is not made',
      row('vendor-c/video-1', 'usual_resolution = "4K"'),
      'videos vendor-c/video-1.usual_resolution: must be one of its resolutions, got 4K',
    ],
    [
      'a row that lacks its family',
      row('house/clip', 'vendor = "vendor-c"', 'upstream = "y"'),
      'videos house/clip: not in the built-in catalog, so family and rates are required',
    ],
    ['an unknown field', row('vendor-c/video-1', 'colour = "red"'), 'videos.0.colour: there is no such setting'],
  ])('%s is reported by name', (_, toml, mistake) => {
    expect(mistakes(toml, keys)).toEqual([mistake])
  })
})

describe('the environment', () => {
  test('a key brings the makers that film to life, with their other services', () => {
    expect(unique(servedBy(good('', { XAI_API_KEY: 'k', ARK_API_KEY: 'k' })))).toEqual([
      'vendor-c by xai-videos',
      'vendor-e by seedance',
    ])
    expect(
      good('', { XAI_API_KEY: 'k', XAI_BASE_URL: 'http://proxy.lan/v1' }).videos.servings.get('vendor-c/video-1'),
    ).toMatchObject({ baseUrl: 'http://proxy.lan/v1', key: 'k' })
  })

  test('no key sells vendor-f, whose upstream is shut down', () => {
    expect(servedBy(good('', { OPENAI_API_KEY: 'k' }))).toEqual([])
    const own = good('[vendors.vendor-f]\nvideo = "openai-videos"\nbase_url = "http://gpu.lan:8000/v1"', {
      OPENAI_API_KEY: 'k',
    })
    expect(own.videos.servings.get('vendor-f/video-1')).toMatchObject({
      protocol: 'openai-videos',
      baseUrl: 'http://gpu.lan:8000/v1',
      key: undefined,
    })
  })

  test('keys that film buy real work, so devnet stays on loopback', () => {
    const [mistake = ''] = mistakes(
      '[vendors.studio]\nvideo = "reseller-videos"\nkey_env = "STUDIO_KEY"\n' +
        row('vendor-e/video-2.0', 'vendor = "studio"'),
      { ...keys, HOST: '0.0.0.0' },
    )
    expect(mistake).toStartWith('HOST: ')
    expect(mistake).toEndWith('studio (STUDIO_KEY)')
  })
})

describe('switches and poll keys', () => {
  const [one, two] = ['ab'.repeat(32), 'cd'.repeat(16)]

  test('references are taken unless they are switched off', () => {
    expect([
      good('').reference_media,
      good('reference_media = false').reference_media,
      good('reference_media = true').reference_media,
    ]).toEqual([true, false, true])
  })

  test('poll keys come from file or environment, newest first; without any, storage keeps one', () => {
    expect(good('').poll_keys).toBeUndefined()
    expect(good(`poll_keys = ["${one}"]`).poll_keys).toEqual([one])
    expect(good(`poll_keys = ["${one}"]`, { POLL_KEYS: ` ${two}, ${one} ` }).poll_keys).toEqual([two, one])
  })

  test.each([
    ['too short a key', `${one},abcd`],
    ['a key that is not hex', `${one},${'z'.repeat(64)}`],
    ['no key at all', ','],
  ])('%s is refused, and never shown', (_, value) => {
    const [mistake = '', ...more] = mistakes('', { POLL_KEYS: value })
    expect(more).toEqual([])
    expect(mistake).toStartWith('POLL_KEYS: ')
    for (const part of value.split(',').filter(Boolean)) expect(mistake).not.toContain(part)
  })
})

test('nothing configured leaves the catalog of the contract as it is, served by nobody', () => {
  expect(good('').videos).toEqual({ rows: videoRows, servings: new Map(), byVendor: new Map() })
})
