import type { Brief, Hour, Place } from './brief.ts'
import { darker, lightness, mix, type Dice } from './ink.ts'

/** Every colour of one picture. `tint` puts a colour into the light of the hour: the share says how deep. */
export type Tones = {
  sky: readonly string[]
  orb: string
  haze: string
  near: string
  leaf: readonly string[]
  water: string
  ink: string
  tint(color: string, share?: number): string
}

const SKIES: Readonly<Record<Hour, readonly string[]>> = {
  day: ['#3f95cc #9fd3e8 #f1efdc', '#56b0c6 #b6e0dc #fdf0cf', '#4d86c6 #aacdea #fce4d2'],
  dawn: ['#5f76b2 #d7a3b6 #fdd9b2', '#7388c0 #eab6ae #ffe8c0', '#5c8aa8 #f0c3a8 #fff0cf'],
  sunset: ['#37295c #ab466b #f4865a #ffd28a', '#26315a #87497c #ee7a55 #fdd17e', '#5a2955 #d04659 #f79a5a #fcd888'],
  night: ['#0a1030 #1b2b60 #41629a', '#110f30 #2e2a66 #6c5f9f', '#071c30 #12405a #348092'],
}
const LIGHTS: Readonly<Record<Hour, { orb: string; ambient: string; depth: number }>> = {
  day: { orb: '#fff2bd', ambient: '#fff1d6', depth: 0.04 },
  dawn: { orb: '#fff0cf', ambient: '#c98fb0', depth: 0.18 },
  sunset: { orb: '#fff0b8', ambient: '#5f2a60', depth: 0.32 },
  night: { orb: '#f7f1d8', ambient: '#121c4c', depth: 0.58 },
}
const GROUNDS: Readonly<Record<Place, { near: string; far: string; leaf: string }>> = {
  meadow: { near: '#4c8c4f', far: '#b4d09c', leaf: '#3f7f54 #5d9a52 #88b04e' },
  forest: { near: '#2d6350', far: '#9cc2a8', leaf: '#255848 #2f6d55 #47835a' },
  mountains: { near: '#4f7f58', far: '#a9c0c4', leaf: '#2d5f55 #3b7560 #5a8a5c' },
  desert: { near: '#c97f45', far: '#f0cd98', leaf: '#4f8a5b #6a9a58 #3f7a5c' },
  ocean: { near: '#e6c78e', far: '#8fb8ae', leaf: '#3f8f63 #5aa05f #2f7a62' },
  city: { near: '#5c6b72', far: '#a9b6c8', leaf: '#3f7f5a #578f58 #2f6a55' },
  space: { near: '#8d84a8', far: '#4f4a7c', leaf: '#7a6fb0 #5a5490 #9a8fc8' },
  deep: { near: '#d9c08c', far: '#2f7f9a', leaf: '#2f8f7a #d9667a #e8964f' },
}

/** Decides every colour from the place, the hour and the weather of the brief. */
export function tonesOf(brief: Brief, dice: Dice): Tones {
  const { place, hour, extras } = brief
  const light = LIGHTS[place === 'space' || place === 'deep' ? 'day' : hour]
  const ground = GROUNDS[place === 'ocean' && (extras.has('lake') || extras.has('peaks')) ? 'mountains' : place]
  const snowy = extras.has('snow') && place !== 'deep' && place !== 'space'
  const sky = skyOf(brief, dice)
  const tint = (color: string, share = 1) => mix(color, light.ambient, Math.min(1, light.depth * share))
  const leaves = extras.has('autumn') ? ['#d9722f', '#e8a23c', '#b8452f'] : ground.leaf.split(' ')
  const dry = extras.has('autumn') && place !== 'ocean' ? '#b58a45' : ground.near
  const near = snowy ? '#f3f8fc' : dry
  const far = snowy ? '#b3c9de' : ground.far
  return {
    sky,
    orb: brief.wash ? mix(light.orb, brief.wash, 0.12) : light.orb,
    haze: mix(sky.at(-1) as string, tint(far), 0.55),
    near: tint(near, snowy ? 0.75 : 1),
    leaf: leaves.map((leaf) => tint(snowy ? mix(leaf, '#3f6a78', 0.35) : leaf)),
    water: mix(tint(place === 'deep' ? '#1f7f9c' : '#2a8ba0'), sky[1] as string, 0.35),
    ink: lightness(sky[0] as string) < 0.15 ? '#171a33' : '#2a2640',
    tint,
  }
}

function skyOf({ place, hour, extras, wash }: Brief, dice: Dice): readonly string[] {
  if (place === 'deep') return ['#7fd0cf', '#2f97b0', '#12527f'].map((tone) => (wash ? mix(tone, wash, 0.35) : tone))
  if (place === 'space')
    return ['#0a0a22', '#1e1847', '#4a2f72'].map((tone) => (wash ? mix(tone, darker(wash, 0.3), 0.4) : tone))
  const tones = extras.has('neon') ? ['#150b38', '#4a1a6e', '#c23f8f'] : dice.pick(SKIES[hour]).split(' ')
  const dim = hour === 'night' ? '#2b3550' : '#7d8a98'
  return tones.map((tone, at) => {
    const washed = wash
      ? mix(tone, hour === 'night' ? darker(wash, 0.45) : mix(wash, '#ffffff', (at / tones.length) * 0.6), 0.55)
      : tone
    const cold = extras.has('snow') && hour !== 'night' ? mix(washed, '#d3e2ee', hour === 'day' ? 0.45 : 0.22) : washed
    const wet = extras.has('rain') ? mix(cold, dim, extras.has('neon') ? 0.2 : 0.6) : cold
    return extras.has('fog') ? mix(wet, hour === 'night' ? '#4a5674' : '#dcdfdc', 0.35) : wet
  })
}
