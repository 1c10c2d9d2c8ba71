/**
 * Anything that a vendor may do to any video protocol: a queue that answers oddly, loses jobs, or does not answer at
 * all.
 */
import { describe, expect, test } from 'bun:test'
import { POLL_TIMEOUT_MS, SUBMIT_TIMEOUT_MS } from '../../../adapters/providers/lib/video_provider.ts'
import { CLIP } from '../../fakes/videos.ts'
import { CLIP_JOB } from '../../conformance/videos.ts'
import { makerOf, protocolsOf } from './lib/protocols.ts'
import { type Answer, calm, drip, KEY, ODD_REPLIES, outcome, errorText, until } from './lib/provider_kit.ts'
import { STATES, vendorOn } from './lib/video_kit.ts'

const protocols = [...protocolsOf('videos').keys()]

/** A finished job and a running one, in all protocols at once. */
const FINISHED = {
  status: 'done',
  video: { url: 'https://x.example/1.mp4' },
  content: { video_url: 'https://x.example/1.mp4' },
}
const DONE_WORDS: Readonly<Record<string, string>> = {
  'xai-videos': 'done',
  seedance: 'succeeded',
  'openai-videos': 'completed',
  'reseller-videos': 'completed',
}
const RUNNING_WORDS: Readonly<Record<string, string>> = {
  'xai-videos': 'pending',
  seedance: 'running',
  'openai-videos': 'in_progress',
  'reseller-videos': 'processing',
}

test('the limits are those of contract 12.41', () => {
  expect([SUBMIT_TIMEOUT_MS, POLL_TIMEOUT_MS]).toEqual([20_000, 10_000])
})

describe.each(protocols)('%s', (protocol) => {
  const on = (answer: Answer, more: Parameters<typeof vendorOn>[2] = {}) =>
    vendorOn(makerOf('videos', protocol), answer, more)
  const state = (words: Readonly<Record<string, string>>) => () =>
    Response.json({ ...FINISHED, status: words[protocol] })

  test('has a public address', () =>
    expect(protocolsOf('videos').get(protocol)?.baseUrl).toMatch(/^https:\/\/[^/]+\/.*[^/]$/))

  const odd: readonly (readonly [string, string, Answer])[] = [
    ...ODD_REPLIES,
    ['an error in a 200', 'RATE_LIMITED 30', () => Response.json({ error: { code: '429', message: 'slow' } })],
    ['an HTML 404', 'operator', () => new Response('<html>no such page</html>', { status: 404 })],
    ['a redirect', 'operator', () => Response.redirect('https://other.example/', 307)],
  ]

  test.each(odd)('a submission answered with %s is %s', async (_, expected, answer) => {
    const { vendor, log } = on(answer)
    expect(await outcome(vendor.submit(CLIP_JOB, calm()), log)).toBe(expected)
  })

  test.each(odd.filter(([name]) => name !== 'an error in a 200'))(
    'a look answered with %s is %s, and ends no job',
    async (_, expected, answer) => {
      const { vendor, log } = on(answer)
      expect(await outcome(vendor.pollUpstream('job-1', calm()), log)).toBe(expected)
    },
  )

  test('a submission without an id is a failure: such a job could never be found again', async () => {
    for (const id of [null, '', 7, 'x'.repeat(600)]) {
      const { vendor, log } = on(() => Response.json({ id, request_id: id, task_id: id }))
      expect(await outcome(vendor.submit(CLIP_JOB, calm()), log)).toBe('failure')
    }
  })

  test.each([
    ['silence', () => new Promise<Response>(() => {})],
    ['a reply that stops halfway', () => new Response(drip())],
  ])('%s ends at the deadline, of a submission and of a look', async (_, answer) => {
    for (const verb of ['submit', 'pollUpstream'] as const) {
      const { vendor, log, clock, server } = on(answer)
      const work = verb === 'submit' ? vendor.submit(CLIP_JOB, calm()) : vendor.pollUpstream('job-1', calm())
      work.catch(() => {})
      await until(() => server.seen.length === 1)
      clock.expire()
      expect(await outcome(work, log)).toBe('UPSTREAM_TIMEOUT')
    }
  })

  test('ends with its signal, and with its reason', async () => {
    const reason = new Error('out of time')
    for (const verb of ['submit', 'pollUpstream'] as const) {
      const controller = new AbortController()
      const { vendor, server } = on(() => new Promise<Response>(() => {}))
      const work = verb === 'submit' ? vendor.submit(CLIP_JOB, controller) : vendor.pollUpstream('job-1', controller)
      work.catch(() => {})
      await until(() => server.seen.length === 1)
      controller.abort(reason)
      await expect(work).rejects.toBe(reason)
    }
  })

  test('a job counts as lost when it is lost at two looks, and not at one', async () => {
    const missing = () => Response.json({ error: { code: 'nowhere', message: 'no such job here' } }, { status: 404 })
    const lost = on(missing)
    expect([await lost.vendor.pollUpstream('job-1', calm()), lost.server.seen.length, lost.clock.pauses]).toEqual([
      STATES.lost,
      2,
      [1000],
    ])
    const found = on(() => (found.server.seen.length === 1 ? missing() : state(RUNNING_WORDS)()))
    expect(await found.vendor.pollUpstream('job-1', calm())).toEqual(STATES.running)
  })

  test('a job that finishes twice is finished twice', async () => {
    const { vendor } = on(state(DONE_WORDS))
    const first = await vendor.pollUpstream('job-1', calm())
    expect(first.kind).toBe('done')
    expect(await vendor.pollUpstream('job-1', calm())).toEqual(first)
  })

  test('a job that runs again is said to run: what is final is not the adapter’s to remember', async () => {
    const { vendor, server } = on(() => (server.seen.length === 1 ? state(DONE_WORDS) : state(RUNNING_WORDS))())
    expect([
      (await vendor.pollUpstream('job-1', calm())).kind,
      (await vendor.pollUpstream('job-1', calm())).kind,
    ]).toEqual(['done', 'running'])
  })

  test.each([
    ['ftp://x.example/1.mp4'],
    ['javascript:alert(1)'],
    ['data:text/html,x'],
    ['//x.example/1.mp4'],
    ['data:video/mp4;base64,'],
    ['data:video/mp4;base64,PGh0bWw+PC9odG1sPg=='],
    [''],
  ])('a clip at %p is none', async (url) => {
    if (protocol === 'openai-videos') return
    const { vendor } = on(() =>
      Response.json({ status: DONE_WORDS[protocol], video: { url }, content: { video_url: url } }),
    )
    expect(await vendor.pollUpstream('job-1', calm())).toEqual(STATES.empty)
  })

  test('a clip in the reply itself is one, where its bytes are', async () => {
    if (protocol === 'openai-videos') return
    const { vendor } = on(() =>
      Response.json({ status: DONE_WORDS[protocol], video: { url: CLIP }, content: { video_url: CLIP } }),
    )
    expect(await vendor.pollUpstream('job-1', calm())).toMatchObject({ kind: 'done', url: CLIP })
  })

  test('progress is a percentage, whatever is sent', async () => {
    for (const progress of [-5, 0.4, 250, 'half', null]) {
      const { vendor } = on(() => Response.json({ status: RUNNING_WORDS[protocol], progress }))
      const seen = await vendor.pollUpstream('job-1', calm())
      expect(seen).toMatchObject({ kind: 'running', status: 'in_progress' })
      if (seen.kind === 'running' && seen.progress !== undefined) expect([0, 100]).toContain(seen.progress)
    }
  })

  test('its text of a refusal has no part of the key, even if the vendor quotes it', async () => {
    const { vendor, log } = on(() =>
      Response.json({ error: { code: 'invalid_api_key', message: `the key ${KEY} is wrong` } }, { status: 401 }),
    )
    expect(await errorText(vendor.submit(CLIP_JOB, calm()), log)).not.toContain(KEY)
    expect(await errorText(vendor.pollUpstream('job-1', calm()), log)).not.toContain(KEY)
  })
})
