import { afterAll, describe, expect, test } from 'bun:test'
import { demoAudio } from '../../../../adapters/providers/demo/audio.ts'
import { piecesOf, speech, SPOKEN_NOTE } from '../../../../adapters/providers/demo/flite.ts'
import { noteOf, sound } from '../../../../adapters/providers/demo/tune.ts'
import { readWav, type Samples, secondsOf } from '../../../../adapters/providers/lib/wav.ts'
import { ApiError, type MadeAudio } from '../../../../core/mod.ts'
import { audioVendorLaws } from '../../../conformance/audio.ts'
import { runLaws } from '../../../conformance/law.ts'
import { calm } from '../lib/provider_kit.ts'

const vendor = demoAudio()
afterAll(() => vendor.close())
runLaws('demoAudio()', audioVendorLaws, async () => ({ open: async () => vendor, close: async () => {} }))

const wavOf = ({ url }: Pick<MadeAudio, 'url'>) => Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
const readOf = (made: MadeAudio | undefined) => readWav(wavOf(made as MadeAudio)) as Samples
function loudest({ samples }: Samples): number {
  return new Int16Array(Uint8Array.from(samples).buffer).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
}
const said = { model: 'm', text: 'Hello, “world”.', voice: 'slt', format: 'wav', speed: 1 } as const
const apiErrorOf = (work: Promise<unknown> | undefined) =>
  work?.then(
    () => undefined,
    (error: unknown) => (error instanceof ApiError ? error.message : error),
  )

describe('speech', () => {
  test('is a real voice in a WAV that says what spoke; bare samples are the same ones, with their rate', async () => {
    const made = await vendor.speak?.(said, calm())
    const read = readOf(made)
    expect([read.rate, read.channels, loudest(read) > 3_000, made?.seconds]).toEqual([16_000, 1, true, secondsOf(read)])
    expect([made?.note, wavOf(made as MadeAudio).includes(SPOKEN_NOTE)]).toEqual([SPOKEN_NOTE, true])
    const bare = await vendor.speak?.({ ...said, format: 'pcm' }, calm())
    expect([wavOf(bare as MadeAudio).equals(Buffer.from(read.samples)), bare?.sampleRate]).toEqual([true, 16_000])
  })

  test('takes its time by the speed, and every voice is another; names of the contract are spoken by one like theirs', async () => {
    const say = (voice: string, speed: number) => speech({ text: 'One, two, three.', voice, speed })
    const [slow, fast, other] = [await say('slt', 0.7), await say('slt', 1.2), await say('rms', 1.2)]
    expect([secondsOf(slow) / secondsOf(fast) > 1.5, Buffer.from(other.samples).equals(fast.samples)]).toEqual([
      true,
      false,
    ])
    expect([vendor.voiceNames.aliases.george, vendor.voiceNames.ids.test('EXAVITQu4vr4xnSDxMaL')]).toEqual([
      'awb',
      true,
    ])
  })

  test.each(['狐と雪', 'a fox, по-русски', '...'])(
    'of %s is refused as the buyer’s: what cannot be said is not left out',
    async (text) => {
      expect(await apiErrorOf(vendor.speak?.({ ...said, text }, calm()))).toStartWith('input: ')
    },
  )

  test('of letters with accents is said in those of English', async () => {
    const [accents, plain] = [
      await vendor.speak?.({ ...said, text: 'Crème brûlée\u200b, Øre & Straße' }, calm()),
      await vendor.speak?.({ ...said, text: 'Creme brulee, Ore & Strasse' }, calm()),
    ]
    expect(accents?.url === plain?.url).toBe(true)
  })

  test('of a long text is spoken piece by piece, parted where one would breathe', async () => {
    const prose = `${'One, two. '.repeat(60)}${'three '.repeat(90)}${'x'.repeat(900)}`
    const pieces = piecesOf(prose)
    expect([pieces.join(''), pieces.every(({ length }) => length <= 400), pieces[0]?.endsWith('two. ')]).toEqual([
      prose,
      true,
      true,
    ])
    expect(secondsOf(await speech({ text: `${'.'.repeat(800)} Well`, voice: 'kal16', speed: 1.2 }))).toBeLessThan(2)
  })

  test('that would last more than ten minutes is refused as the buyer’s', async () => {
    expect(
      await apiErrorOf(vendor.speak?.({ ...said, text: '999999999 '.repeat(120), voice: 'kal16', speed: 0.7 }, calm())),
    ).toStartWith('input: takes longer than 10 minutes to say')
  })
})

test.each(['sound', 'music'] as const)(
  '%s is exactly as long as was asked, can be heard, and says that no model made it',
  async (kind) => {
    const order = { kind, text: 'church bell', seconds: 1.5 }
    const [first, again, other] = [sound(order), sound(order), sound({ ...order, text: 'old bell' })]
    expect([first.rate, first.channels, secondsOf(first), loudest(first) > 8_000, loudest(first) < 32_767]).toEqual([
      32_000,
      2,
      1.5,
      true,
      true,
    ])
    expect([
      Buffer.from(first.samples).equals(again.samples),
      Buffer.from(first.samples).equals(other.samples),
    ]).toEqual([true, false])
    const made =
      kind === 'sound'
        ? await vendor.sound?.({ model: 'm', text: 'bell', format: 'wav' }, calm())
        : await vendor.compose?.({ model: 'm', prompt: 'calm', instrumental: true, seconds: 240 }, calm())
    expect([made?.note, wavOf(made as MadeAudio).includes(noteOf(kind)), secondsOf(readOf(made))]).toEqual([
      noteOf(kind),
      true,
      kind === 'sound' ? 4 : 60,
    ])
    expect(noteOf(kind)).toStartWith(`Demo ${kind} by Farebox - not a model.`)
  },
)
