import { afterAll, describe, expect, test } from 'bun:test'
import { sketchAudio, type Program, type SketchAudioOptions } from '../../../../adapters/providers/demo/audio.ts'
import {
  audioOf,
  type AudioAnswer,
  type AudioOrder,
  SOUND_NOTE,
  SPOKEN_NOTE,
  TUNE_NOTE,
} from '../../../../adapters/providers/demo/sketch/audio_work.ts'
import { piecesOf } from '../../../../adapters/providers/demo/sketch/flite.ts'
import { readWav, wavOf } from '../../../../adapters/providers/lib/wav.ts'
import { ApiError, type MadeAudio } from '../../../../core/mod.ts'
import { audioVendorLaws } from '../../../conformance/audio.ts'
import { runLaws } from '../../../conformance/law.ts'
import { calm } from '../lib/provider_kit.ts'

const closing: (() => void)[] = []
afterAll(() => {
  for (const close of closing) close()
})

function sketch(options: SketchAudioOptions = {}) {
  const vendor = sketchAudio(options)
  closing.push(() => vendor.close())
  return vendor
}

const bytesOf = ({ url }: Pick<MadeAudio, 'url'>) => Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')

/** What a sound is: its loudest sample, how loud it is on the whole, and how much of it is silent. */
function heard(wav: Uint8Array) {
  const read = readWav(wav)
  if (!read) throw new Error('no WAV')
  const { samples, rate, channels } = read
  const values = new Int16Array(Uint8Array.from(samples).buffer)
  let [peak, energy] = [0, 0]
  for (const value of values) {
    peak = Math.max(peak, Math.abs(value))
    energy += value * value
  }
  return { rate, channels, seconds: values.length / channels / rate, peak, loudness: Math.sqrt(energy / values.length) }
}

/** An order that is worked on in this process. */
async function made(order: AudioOrder) {
  const answer = await audioOf(order)
  if ('error' in answer) throw new Error(answer.error)
  return { ...answer, ...heard(answer.wav), text: Buffer.from(answer.wav).toString('latin1') }
}

describe('speech', () => {
  test('is a real voice in a WAV that says what spoke, and the longer the text the longer it lasts', async () => {
    const vendor = sketch()
    const job = { model: 'm', text: 'Hello, “world”.', voice: 'slt', format: 'wav', speed: 1 } as const
    const spoken = (await vendor.speak?.(job, calm())) as MadeAudio
    const { seconds = 0, note } = spoken
    const wav = bytesOf(spoken)
    const { rate, channels, peak, loudness, seconds: length } = heard(wav)
    expect([rate, channels, Math.abs(length - seconds) < 0.01, peak > 3_000, loudness > 300]).toEqual([
      16_000,
      1,
      true,
      true,
      true,
    ])
    expect([note, wav.readUInt32LE(4), wav.toString('latin1').includes(SPOKEN_NOTE)]).toEqual([
      SPOKEN_NOTE,
      wav.length - 8,
      true,
    ])
    const bare = (await vendor.speak?.({ ...job, format: 'pcm' }, calm())) as MadeAudio
    expect([bytesOf(bare).equals(Buffer.from(readWav(wav)?.samples ?? [])), bare.sampleRate]).toEqual([true, 16_000])
  })

  test('takes its time by the speed, and every voice is another', async () => {
    const say = (voice: string, speed: number) => made({ kind: 'speech', text: 'One, two, three.', voice, speed })
    const [slow, fast, other] = [await say('slt', 0.7), await say('slt', 1.2), await say('rms', 1)]
    expect(slow.seconds / fast.seconds).toBeGreaterThan(1.5)
    expect(Buffer.from(other.wav).equals(Buffer.from(fast.wav))).toBe(false)
  })

  test.each(['狐と雪', 'a fox, по-русски', '...'])(
    'of %s is refused as the buyer’s, and needs no process: what cannot be said is not left out',
    async (text) => {
      const error = await sketch({
        program: () => {
          throw new Error('not to be asked')
        },
      })
        .speak?.({ model: 'm', text, voice: 'slt', format: 'wav', speed: 1 }, calm())
        .catch((reason: unknown) => reason)
      expect([error instanceof ApiError, (error as ApiError).message.startsWith('input: ')]).toEqual([true, true])
    },
  )

  test('of letters with accents is said in those of English', async () => {
    const { orders, program } = acting()
    await sketch({ program }).speak?.(
      { model: 'm', text: 'Crème brûlée\u200b, Øre & Straße', voice: 'slt', format: 'wav', speed: 1 },
      calm(),
    )
    expect(orders.map(({ text }) => text)).toEqual(['Creme brulee, Ore & Strasse'])
  })

  test('of a long text is spoken piece by piece, parted where one would breathe', async () => {
    const prose = `${'One, two. '.repeat(60)}${'three '.repeat(90)}${'x'.repeat(900)}`
    const pieces = piecesOf(prose)
    expect([pieces.join(''), pieces.every(({ length }) => length <= 400), pieces[0]?.endsWith('two. ')]).toEqual([
      prose,
      true,
      true,
    ])
    const { seconds, loudness } = await made({
      kind: 'speech',
      text: `${'.'.repeat(800)} Well`,
      voice: 'kal16',
      speed: 1.2,
    })
    expect([seconds < 2, loudness > 100]).toEqual([true, true])
  })

  test('that would last more than ten minutes is refused as the buyer’s', async () => {
    const figures = await audioOf({ kind: 'speech', text: '999999999 '.repeat(120), voice: 'kal16', speed: 0.7 })
    expect(figures).toEqual({ error: 'it would last too long', refusal: 'takes longer than 10 minutes to say' })
    const error = await sketch({ program: acting(() => figures).program })
      .speak?.({ model: 'm', text: '9', voice: 'slt', format: 'wav', speed: 1 }, calm())
      .catch((reason: unknown) => reason)
    expect((error as ApiError).message).toStartWith('input: takes longer than 10 minutes to say')
  })
})

describe('a sound effect', () => {
  const EFFECTS = [
    'rain',
    'thunder',
    'wind',
    'ocean',
    'fire',
    'river',
    'bell',
    'engine',
    'footsteps',
    'explosion',
    'laser',
    'siren',
    'birds',
    'clock',
    'knock',
    'applause',
    'heartbeat',
    'glass',
    'drip',
    'phone',
    'coin',
    'click',
    'crickets',
    'whoosh',
    'something unheard of',
  ]
  test('of every kind is as long as was asked, in stereo, and can be heard', async () => {
    for (const text of EFFECTS) {
      const { rate, channels, seconds, peak, loudness } = await made({ kind: 'sound', text, seconds: 0.5 })
      expect([text, rate, channels, seconds, peak > 8_000, peak < 32_767, loudness > 80]).toEqual([
        text,
        32_000,
        2,
        0.5,
        true,
        true,
        true,
      ])
    }
  })

  test('is the same for the same words and another for others, and says that no model made it', async () => {
    const [first, again, other] = [
      await made({ kind: 'sound', text: 'church bell', seconds: 0.5 }),
      await made({ kind: 'sound', text: 'church bell', seconds: 0.5 }),
      await made({ kind: 'sound', text: 'old bell', seconds: 0.5 }),
    ]
    expect([
      Buffer.from(first.wav).equals(Buffer.from(again.wav)),
      Buffer.from(first.wav).equals(Buffer.from(other.wav)),
    ]).toEqual([true, false])
    expect([first.note.startsWith(SOUND_NOTE), first.text.includes(SOUND_NOTE), first.text.includes('LIST')]).toEqual([
      true,
      true,
      true,
    ])
  })
})

test('music is about as long as was asked, in the style of its words, and says that no model made it', async () => {
  const piece = await made({ kind: 'music', text: 'happy waltz at 140 bpm', seconds: 6 })
  expect([piece.seconds > 3, piece.seconds <= 6, piece.peak > 8_000, piece.loudness > 300, piece.channels]).toEqual([
    true,
    true,
    true,
    true,
    2,
  ])
  expect([
    piece.note.startsWith(TUNE_NOTE),
    piece.note.includes('major, 140 bpm, bells'),
    piece.text.includes(TUNE_NOTE),
  ]).toEqual([true, true, true])
})

// ── the vendor ──────────────────────────────────────────────────────────────────────────────────────────────────────

const BEEP = wavOf({ samples: new Uint8Array(320).fill(9), rate: 16_000, channels: 1 })
const beep: AudioAnswer = { wav: BEEP, seconds: 0.01, note: 'a beep' }

/** Works in this process, a turn later; what it is asked, and how many were stopped. */
function acting(act: (order: AudioOrder) => AudioAnswer | 'dies' | 'hangs' = () => beep) {
  const orders: AudioOrder[] = []
  const state = { stopped: 0 }
  const program: Program = (order, { hear, died }) => {
    orders.push(order)
    const due = setImmediate(() => {
      const answer = act(order)
      if (answer === 'dies') died('its process ended with SIGSEGV')
      else if (answer !== 'hangs') hear(answer)
    })
    return { stop: () => (state.stopped++, clearImmediate(due)) }
  }
  return { orders, state, program }
}

const bell = (text: string) => ({ model: 'm', text, format: 'wav' }) as const

runLaws('sketchAudio()', audioVendorLaws, async () => {
  const vendor = sketch({ program: acting().program })
  return { open: async () => vendor, close: async () => vendor.close() }
})

describe('sketchAudio()', () => {
  test('works on two orders at a time, in turn, and stops each hand', async () => {
    const { orders, state, program } = acting()
    const vendor = sketch({ program })
    const all = ['a', 'b', 'c', 'd'].map((text) => vendor.sound?.(bell(text), calm()))
    expect(orders).toHaveLength(2)
    await Promise.all(all)
    expect([orders.map(({ text }) => text), state.stopped]).toEqual([['a', 'b', 'c', 'd'], 4])
  })

  test('gives up what takes too long, what dies and what is not wanted any more, and goes on', async () => {
    const { state, program } = acting(({ text }) => ({ x: 'hangs', y: 'dies' } as const)[text] ?? beep)
    const vendor = sketch({ program, limitMs: 5 })
    const reason = (work: Promise<unknown> | undefined) =>
      work?.then(
        () => 'made',
        (error: Error) => error.message,
      )
    expect(await reason(vendor.sound?.(bell('x'), calm()))).toContain('it took too long')
    expect(await reason(vendor.sound?.(bell('y'), calm()))).toContain('SIGSEGV')
    const gone = new AbortController()
    const left = reason(vendor.sound?.(bell('z'), gone))
    gone.abort(new Error('gone'))
    expect([await left, await reason(vendor.sound?.(bell('z'), calm())), state.stopped]).toEqual(['gone', 'made', 4])
  })

  test('a hand that cannot be had costs nobody else a sound that is made', async () => {
    const { program } = acting()
    const hiring: Program = (order, ears) => {
      if (order.text === 'c') throw new Error('no more processes')
      return program(order, ears)
    }
    const vendor = sketch({ program: hiring })
    const all = ['a', 'b', 'c', 'd'].map((text) =>
      vendor.sound?.(bell(text), calm()).then(
        () => 'made',
        (error: Error) => error.message,
      ),
    )
    expect(await Promise.all(all)).toEqual(['made', 'made', 'the sketch made no sound: no more processes', 'made'])
  })

  test('lets only so many wait, and ends them all when it is closed', async () => {
    const vendor = sketch({ program: acting(() => 'hangs').program, waiting: 1 })
    const reason = (work: Promise<unknown> | undefined) =>
      work?.then(
        () => 'made',
        (error: Error) => error.message,
      )
    const held = [1, 2, 3].map((each) => reason(vendor.sound?.(bell(String(each)), calm())))
    expect(await reason(vendor.sound?.(bell('4'), calm()))).toStartWith('Too many sounds are waiting')
    vendor.close()
    expect(await Promise.all(held)).toEqual(Array(3).fill('the sketch made no sound: the sketch vendor is closed'))
    expect(await reason(vendor.sound?.(bell('5'), calm()))).toBe('the sketch vendor is closed')
  })

  test('speaks names of the contract in a voice like theirs, and composes no longer than a minute', async () => {
    const { orders, program } = acting()
    const vendor = sketch({ program })
    const voice = vendor.voiceNames.aliases.george ?? ''
    for (const name of [voice, 'EXAVITQu4vr4xnSDxMaL'])
      await vendor.speak?.({ model: 'm', text: 'Hi', voice: name, format: 'wav', speed: 1 }, calm())
    await vendor.compose?.({ model: 'm', prompt: 'calm', instrumental: true, seconds: 240 }, calm())
    expect(orders.map((order) => ('voice' in order ? order.voice : order.seconds))).toEqual(['awb', 'slt', 60])
  })
})
